/*
 * What the system has for who moves bytes into another process: memcpy(3) within one, and process_vm_writev(2)
 * into a child, over memory that no cache holds, in pages of 4 KiB and in huge ones. The emulated EFA makes no
 * other call for a write, so this is its limit: nothing of libfabric or of this crate is in here.
 *
 *   cc -O2 -o vm_writev vm_writev.c && ./vm_writev
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#define AREA ((size_t)64 << 20)
#define HUGE_PAGE ((size_t)2 << 20)
#define ROUNDS 3

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Every page of it is there. */
static char *area(int huge)
{
	char *at = mmap(NULL, AREA + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		fail("mmap");
	at += HUGE_PAGE - (uintptr_t)at % HUGE_PAGE;
	madvise(at, AREA, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
	memset(at, 1, AREA);
	return at;
}

static double copied(char *into, const char *from, size_t size)
{
	double start = now();
	for (size_t at = 0; at < AREA; at += size)
		memcpy(into + at, from + at, size);
	return now() - start;
}

static double written(pid_t child, char *into, char *from, size_t size)
{
	double start = now();
	for (size_t at = 0; at < AREA; at += size) {
		struct iovec near = {from + at, size}, far = {into + at, size};
		if (process_vm_writev(child, &near, 1, &far, 1, 0) != (ssize_t)size)
			fail("process_vm_writev");
	}
	return now() - start;
}

static void measure(int huge)
{
	int ends[2];
	if (pipe(ends) != 0)
		fail("pipe");
	pid_t child = fork();
	if (child < 0)
		fail("fork");
	char *there = NULL;
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		there = area(huge);
		if (write(ends[1], &there, sizeof(there)) != sizeof(there))
			fail("write");
		for (;;)
			pause();
	}
	if (read(ends[0], &there, sizeof(there)) != sizeof(there))
		fail("the child");
	char *from = area(huge), *here = area(huge);
	printf("| %s pages | memcpy GB/s | process_vm_writev | of memcpy |\n|---|---|---|---|\n", huge ? "huge" : "4 KiB");
	for (size_t size = 64 << 10; size <= (size_t)16 << 20; size *= 4) {
		double memory = 1e9, call = 1e9;
		for (int round = 0; round < ROUNDS; round++) {
			double took = copied(here, from, size);
			memory = took < memory ? took : memory;
			took = written(child, there, from, size);
			call = took < call ? took : call;
		}
		printf("| %zu KiB | %.1f | %.1f | %.2f |\n", size >> 10, (double)AREA / memory / 1e9,
		       (double)AREA / call / 1e9, memory / call);
	}
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	munmap(from, AREA);
	munmap(here, AREA);
	close(ends[0]);
	close(ends[1]);
}

int main(void)
{
	measure(0);
	measure(1);
	return 0;
}
