/* tests/lib/suite.h - running the test cases of a program with libcheck. What these return is the program's exit status. */
#ifndef TESTS_LIB_SUITE_H
#define TESTS_LIB_SUITE_H

#include <check.h>
#include <stdlib.h>

/* A test that takes longer hangs. Generous: machines are busy, and sanitizers slow. */
#define SUITE_TIMEOUT_S 300

static inline int run_suite(const char *name, TCase *const *tcases, size_t count)
{
	Suite *suite = suite_create(name);
	SRunner *runner;
	int failed;

	for (size_t i = 0; i < count; i++) {
		tcase_set_timeout(tcases[i], SUITE_TIMEOUT_S);
		suite_add_tcase(suite, tcases[i]);
	}
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* The tests that add adds to one case. */
static inline int run_case(const char *name, void (*add)(TCase *tcase))
{
	TCase *tcase = tcase_create(name);

	add(tcase);
	return run_suite(name, &tcase, 1);
}

#endif
