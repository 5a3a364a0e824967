// Counts under a lock, for bench/lock: lock KIND WORKERS ACQUISITIONS, where KIND
// is pthread or three, for a word with three states on a futex. Prints the size of
// the lock, seconds passed, CPU seconds, the counter, and the count of each worker.
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t mutex __attribute__((aligned(64))) = PTHREAD_MUTEX_INITIALIZER;
static atomic_uint word __attribute__((aligned(64)));
static volatile long counter __attribute__((aligned(64)));
static long acquisitions;
static pthread_barrier_t start;

static void three_lock(void) {
	unsigned c = 0;
	if (atomic_compare_exchange_strong(&word, &c, 1)) return;
	if (c != 2) c = atomic_exchange(&word, 2);
	while (c != 0) {
		syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
		c = atomic_exchange(&word, 2);
	}
}

static void three_unlock(void) {
	if (atomic_exchange(&word, 0) == 2) syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

#define WORKER(name, lock, unlock)                      \
	static void *name(void *p) {                    \
		long n = 0;                             \
		pthread_barrier_wait(&start);           \
		for (int more = 1; more; n += more) {   \
			lock;                           \
			more = counter < acquisitions;  \
			counter += more;                \
			unlock;                         \
		}                                       \
		*(long *)p = n;                         \
		return NULL;                            \
	}
WORKER(with_pthread, pthread_mutex_lock(&mutex), pthread_mutex_unlock(&mutex))
WORKER(with_three, three_lock(), three_unlock())

static double wall(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static double cpu(void) {
	struct rusage u;
	getrusage(RUSAGE_SELF, &u);
	return u.ru_utime.tv_sec + u.ru_stime.tv_sec + (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

int main(int argc, char **argv) {
	if (argc != 4) return 2;
	int three = strcmp(argv[1], "three") == 0, workers = atoi(argv[2]);
	acquisitions = atol(argv[3]);
	long *counts = calloc(workers * 8, sizeof *counts); // each on a line of its own
	pthread_t *threads = calloc(workers, sizeof *threads);
	if (!counts || !threads || pthread_barrier_init(&start, NULL, workers + 1)) return 1;
	for (int i = 0; i < workers; i++)
		if (pthread_create(&threads[i], NULL, three ? with_three : with_pthread, &counts[i * 8])) return 1;
	double c = cpu(), t = wall();
	pthread_barrier_wait(&start);
	for (int i = 0; i < workers; i++) pthread_join(threads[i], NULL);
	t = wall() - t, c = cpu() - c;
	printf("{\"bytes\":%zu,\"wall\":%.9f,\"cpu\":%.9f,\"counter\":%ld,\"counts\":[", three ? sizeof word : sizeof mutex, t, c, counter);
	for (int i = 0; i < workers; i++) printf("%s%ld", i ? "," : "", counts[i * 8]);
	printf("]}\n");
	return 0;
}
