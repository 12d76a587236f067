/* SPDX-License-Identifier: Apache-2.0 */
/* Version of the library, and the mark that public functions carry. */
#ifndef PTIO_VERSION_H
#define PTIO_VERSION_H

#ifdef __cplusplus
extern "C" {
#endif

/* On the declaration of every function that libptio.so exports. */
#if defined(__GNUC__)
#define PTIO_API __attribute__((visibility("default")))
#else
#define PTIO_API
#endif

/* Returns the version of the library that is linked, as "0.1.0". Any thread. */
PTIO_API const char *ptio_version(void);

#ifdef __cplusplus
}
#endif

#endif
