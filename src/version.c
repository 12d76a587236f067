/* SPDX-License-Identifier: Apache-2.0 */
/* Owns the answer to ptio_version(). */
#include "config.h"
#include "ptio/version.h"

const char *ptio_version(void)
{
	return PACKAGE_VERSION;
}
