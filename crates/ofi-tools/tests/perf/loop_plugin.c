/*
 * A small transport for the tests of `ofi perf`: one process per rank, real bytes over unix
 * sockets, the Neuron v4 to v6 tables (with -DLOOP_NEURON) or NCCL's v6 to v12. Not part of the product.
 *
 * LOOP_FAULT makes it misbehave, in the process that has it set:
 *   flip      a bit of message 9 is wrong
 *   overrun   message 9 is written one byte too far
 *   hang      message 9 never completes
 *   error     isend of message 9 returns ncclSystemError
 *   crash     isend of message 9 dereferences NULL
 *   stop      the process stops itself (SIGSTOP) at isend of message 9
 *   size      message 9 is reported one byte too long
 *   handle    listen writes beyond the handle of v4
 *   stuckinit init never returns
 *   stopinit  the process stops itself in init
 *   badclose  as error, and closing a communicator never returns
 *   slowclose as error, and closing the first communicator takes 7 s
 *   warn      logs a warning through the logger at init
 *
 * LOOP_OPEN names a directory in which each process keeps a file, always up to date: what is open (communicators,
 * listeners, regions), regions that outlived their communicator, and how often it was finalized.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { OK = 0, SYSTEM = 2, ARGUMENT = 4, REMOTE = 6, FAULTY = 9, IN_FLIGHT = 8 };

typedef void (*logger_t)(int, unsigned long, const char *, int, const char *, ...);

struct comm;
struct request {
	struct comm *comm;
	char *data;
	size_t len, moved, got;
	uint64_t head;
	size_t head_moved;
	unsigned number;
	int done, used;
};
struct comm {
	int fd, sending;
	unsigned posted;
	/* in order: the head of the queue is what moves */
	struct request slot[IN_FLIGHT];
	unsigned first, last, calls;
	int regions;
};
struct listener {
	int fd;
};

static const char *fault(void)
{
	const char *f = getenv("LOOP_FAULT");
	return f ? f : "";
}

enum { COMMS, LISTENERS, REGIONS, LATE, FINI, COUNTS };
static int counts[COUNTS];

static void tally(int what, int by)
{
	const char *dir = getenv("LOOP_OPEN");
	char path[4096];
	counts[what] += by;
	if (!dir)
		return;
	snprintf(path, sizeof path, "%s/%d", dir, (int)getpid());
	FILE *f = fopen(path, "w");
	if (!f)
		abort();
	for (int i = 0; i < COUNTS; i++)
		fprintf(f, "%d ", counts[i]);
	fclose(f);
}

static int is(const char *name) { return !strcmp(fault(), name); }

static int init(logger_t log)
{
	if (is("stuckinit"))
		for (;;)
			pause();
	if (is("stopinit"))
		raise(SIGSTOP);
	if (is("asksrank")) {
		const char *rank = getenv("RANK"), *world = getenv("WORLD_SIZE");
		const char *own = getenv("OFI_PERF_RANK");
		if (!rank || !world || !own || strcmp(rank, own) || strcmp(world, "2"))
			return 2;
	}
	if (is("warn"))
		log(2, 1, "loop_plugin.c", 1, "%s", "a warning for the test");
	return OK;
}
static int init_profiled(logger_t log, void *p) { return (void)p, init(log); }
static int init_context(void **ctx, uint64_t id, void *config, logger_t log, void *p)
{
	(void)id, (void)config, (void)p;
	*ctx = malloc(1);
	return init(log);
}
static int fini(void) { return tally(FINI, 1), OK; }
static int finalize(void *ctx) { return free(ctx), fini(); }

static int devices(int *n) { return *n = 2, OK; }

static int props_with(int dev, char *p, int global_at, int speed_at, int recvs_at)
{
	int speed = 10000, one = 1, comms = 1000;
	if (dev < 0 || dev > 1)
		return ARGUMENT;
	const char *name = dev ? "loop1" : "loop0";
	uint64_t guid = 77u + (unsigned)dev;
	memcpy(p, &name, 8);
	memcpy(p + 16, &guid, 8);
	memcpy(p + 24, &one, 4);
	if (global_at)
		memcpy(p + global_at, &one, 4);
	memcpy(p + speed_at, &speed, 4);
	memcpy(p + speed_at + 4, &one, 4);
	if (recvs_at) {
		memcpy(p + recvs_at - 4, &comms, 4);
		memcpy(p + recvs_at, &one, 4);
	} else
		memcpy(p + speed_at + 8, &comms, 4);
	return OK;
}
static int props_v4(int d, void *p) { return props_with(d, p, 0, 28, 0); }
static int props_neuron(int d, void *p) { return props_with(d, p, 28, 32, 48); }
static int props_nccl6(int d, void *p) { return props_with(d, p, 0, 28, 44); }
static int props_nccl8(int d, void *p) { return props_with(d, p, 28, 32, 48); }
static int props_nccl12(int d, void *p) { return props_with(d, p, 28, 36, 52); }

static int listen_at(int dev, void *handle, void **out)
{
	static int count;
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	struct listener *l = calloc(1, sizeof *l);
	(void)dev;
	if (is("handle"))
		memset(handle, 1, 72);
	/* an abstract name of at most 40 bytes, which is also the handle */
	snprintf(a.sun_path + 1, 40, "loop-%d-%d", (int)getpid(), count++);
	memset(handle, 0, 48);
	memcpy(handle, a.sun_path, 41);
	l->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
	if (l->fd < 0 || bind(l->fd, (void *)&a, offsetof(struct sockaddr_un, sun_path) + 41) || listen(l->fd, 16))
		return SYSTEM;
	*out = l;
	tally(LISTENERS, 1);
	return OK;
}
static int listen_context(void *c, int d, void *h, void **o) { return (void)c, listen_at(d, h, o); }

static struct comm *comm_of(int fd, int sending)
{
	struct comm *c = calloc(1, sizeof *c);
	c->fd = fd;
	c->sending = sending;
	tally(COMMS, 1);
	return c;
}

/* Takes two calls, with the state of the first in the handle, as real plugins do. */
static int connect_to(int dev, void *handle, void **out)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	char *h = handle;
	int fd;
	(void)dev;
	if (!h[60]) {
		h[60] = 1;
		*out = NULL;
		return OK;
	}
	memcpy(a.sun_path, handle, 41);
	fd = socket(AF_UNIX, SOCK_STREAM, 0);
	if (fd < 0 || connect(fd, (void *)&a, offsetof(struct sockaddr_un, sun_path) + 41))
		return SYSTEM;
	fcntl(fd, F_SETFL, O_NONBLOCK);
	*out = comm_of(fd, 1);
	return OK;
}
static int connect_device(int d, void *h, void **o, void **dh) { return (void)dh, connect_to(d, h, o); }
static int connect_context(void *c, int d, void *h, void **o, void **dh)
{
	return (void)c, (void)dh, connect_to(d, h, o);
}

static int accept_from(void *listener, void **out)
{
	int fd = accept4(((struct listener *)listener)->fd, NULL, NULL, SOCK_NONBLOCK);
	*out = NULL;
	if (fd < 0)
		return errno == EAGAIN ? OK : SYSTEM;
	*out = comm_of(fd, 0);
	return OK;
}
/* v4: connect returns at once, accept does not return without a connection. */
static int connect_now(int d, void *h, void **o) { return ((char *)h)[60] = 1, connect_to(d, h, o); }
static int accept_blocking(void *l, void **o)
{
	int rc = OK;
	for (*o = NULL; !rc && !*o; usleep(100))
		rc = accept_from(l, o);
	return rc;
}
static int accept_device(void *l, void **o, void **dh) { return (void)dh, accept_from(l, o); }

/* A handle of its own for each region, so that a wrong one is noticed. */
struct region {
	struct comm *comm;
	char *data;
	size_t size;
};
static int reg(void *comm, void *data, size_t size, int type, void **mh)
{
	struct region *r = malloc(sizeof *r);
	if (!comm || type != 1)
		return ARGUMENT;
	*r = (struct region){ comm, data, size };
	*mh = r;
	r->comm->regions++;
	tally(REGIONS, 1);
	return OK;
}
static int reg_int(void *c, void *d, int size, int t, void **mh) { return reg(c, d, (size_t)size, t, mh); }
static int dereg(void *comm, void *mh)
{
	struct region *r = mh;
	if (r->comm != comm)
		return ARGUMENT;
	r->comm->regions--;
	tally(REGIONS, -1);
	return free(r), OK;
}

static int post(struct comm *c, char *data, size_t len, struct region *r, void **out)
{
	struct request *q;
	*out = NULL;
	if (!r || data < r->data || data + len > r->data + r->size)
		return ARGUMENT;
	/* "not now" when full, and every seventh call for no reason */
	if (c->last - c->first == IN_FLIGHT || ++c->calls % 7 == 0)
		return OK;
	q = &c->slot[c->last % IN_FLIGHT];
	if (q->used)
		return OK; /* done, but not yet asked for */
	*q = (struct request){ .comm = c, .data = data, .len = len, .number = c->posted++, .used = 1 };
	c->last++;
	*out = q;
	return OK;
}

static int isend_size(void *comm, void *data, size_t len, int tag, void *mh, void **req)
{
	struct comm *c = comm;
	int rc = post(c, data, len, mh, req);
	(void)tag;
	if (rc || !*req)
		return rc;
	struct request *q = *req;
	if (q->number == FAULTY && (is("error") || is("badclose") || is("slowclose")))
		return SYSTEM;
	if (q->number == FAULTY && is("crash"))
		*(volatile int *)NULL = 1;
	if (q->number == FAULTY && is("stop"))
		raise(SIGSTOP);
	q->head = len;
	return OK;
}
static int isend(void *c, void *d, int n, int tag, void *mh, void **r) { return isend_size(c, d, (size_t)n, tag, mh, r); }
static int isend_v4(void *c, void *d, int n, void *mh, void **r) { return isend(c, d, n, 0, mh, r); }
static int isend_profiled(void *c, void *d, size_t n, int tag, void *mh, void *ph, void **r)
{
	return ph ? ARGUMENT : isend_size(c, d, n, tag, mh, r);
}

static int irecv_one(void *comm, void *data, size_t len, void *mh, void **req)
{
	if (*req)
		return ARGUMENT; /* the request is an input: completion is not optional here */
	return post(comm, data, len, mh, req);
}
static int irecv(void *c, int n, void **d, int *sizes, int *tags, void **mhs, void **r)
{
	return n != 1 || !tags ? ARGUMENT : irecv_one(c, *d, (size_t)*sizes, *mhs, r);
}
static int irecv_v4(void *c, void *d, int n, void *mh, void **r) { return irecv_one(c, d, (size_t)n, mh, r); }
static int irecv_profiled(void *c, int n, void **d, size_t *sizes, int *tags, void **mhs, void **ph, void **r)
{
	return n != 1 || !tags || *ph ? ARGUMENT : irecv_one(c, *d, *sizes, *mhs, r);
}

static int iflush(void *c, int n, void **d, int *sizes, void **mhs, void **r)
{
	return n != 1 || !c || !*d || *sizes < 0 || !*mhs ? ARGUMENT : (*r = NULL, OK);
}
static int iflush_v4(void *c, void *d, int n, void *mh, void **r) { return iflush(c, 1, &d, &n, &mh, r); }

/* 1 moved all, 0 not now, -1 failed */
static int move(int fd, char *p, size_t n, size_t *moved, int sending)
{
	while (*moved < n) {
		ssize_t k = sending ? send(fd, p + *moved, n - *moved, MSG_NOSIGNAL) : recv(fd, p + *moved, n - *moved, 0);
		if (k < 0 && errno == EAGAIN)
			return 0;
		if (k <= 0)
			return -1;
		*moved += (size_t)k;
	}
	return 1;
}

static int step_send(struct request *q)
{
	int k = move(q->comm->fd, (char *)&q->head, 8, &q->head_moved, 1);
	return k == 1 ? move(q->comm->fd, q->data, q->len, &q->moved, 1) : k;
}

static int step_recv(struct request *q)
{
	int k = move(q->comm->fd, (char *)&q->head, 8, &q->head_moved, 0);
	if (k != 1)
		return k;
	size_t fits = q->head < q->len ? q->head : q->len;
	k = move(q->comm->fd, q->data, fits, &q->moved, 0);
	while (k == 1 && q->got < q->head - fits) { /* truncated: the rest goes nowhere */
		char sink[4096];
		size_t rest = q->head - fits - q->got, none = 0;
		k = move(q->comm->fd, sink, rest < sizeof sink ? rest : sizeof sink, &none, 0);
		q->got += none;
	}
	if (k == 1 && q->number == FAULTY) {
		if (is("flip") && fits)
			q->data[fits / 2] ^= 4;
		if (is("overrun"))
			q->data[fits] ^= 1;
	}
	return k;
}

static int test(void *request, int *done, int *size)
{
	struct request *q = request;
	struct comm *c = q->comm;
	*done = 0;
	while (c->first != c->last) {
		struct request *f = &c->slot[c->first % IN_FLIGHT];
		if (!c->sending && f->number == FAULTY && is("hang"))
			break;
		int k = c->sending ? step_send(f) : step_recv(f);
		if (k < 0)
			return REMOTE;
		if (!k)
			break;
		f->done = 1;
		c->first++;
	}
	if (q->done) {
		size_t n = !c->sending && q->head < q->len ? q->head : q->len;
		*done = 1;
		*size = (int)n + (!c->sending && q->number == FAULTY && is("size"));
		q->used = 0;
	}
	return OK;
}

static int close_comm(void *comm)
{
	static int closed;
	struct comm *c = comm;
	if (is("badclose"))
		for (;;)
			pause();
	if (is("slowclose") && !closed++)
		sleep(7);
	tally(LATE, c->regions);
	tally(COMMS, -1);
	close(c->fd);
	free(c);
	return OK;
}
static int close_listener(void *l)
{
	tally(LISTENERS, -1);
	close(((struct listener *)l)->fd);
	free(l);
	return OK;
}

#define ENDS test, close_comm, close_comm, close_listener
#define NAME "Loop"

#ifdef LOOP_NEURON
const void *const ncclNetPlugin_v4[16] = { NAME, init, devices, props_v4, listen_at, connect_now, accept_blocking, reg, dereg,
	isend_v4, irecv_v4, iflush_v4, ENDS };
const void *const ncclNetPlugin_v5[21] = { NAME, init, devices, props_neuron, listen_at, connect_to, accept_from, reg,
	NULL, dereg, isend, irecv, iflush, ENDS };
const void *const ncclNetPlugin_v6[22] = { NAME, init, fini, devices, props_neuron, listen_at, connect_to, accept_from,
	reg, NULL, dereg, isend, irecv, iflush, ENDS };
#else
static int isend9(void *c, void *d, size_t n, int tag, void *mh, void **r) { return isend_size(c, d, n, tag, mh, r); }
static int irecv9(void *c, int n, void **d, size_t *sizes, int *tags, void **mhs, void **r)
{
	return n != 1 || !tags ? ARGUMENT : irecv_one(c, *d, *sizes, *mhs, r);
}
static int connect_config(int d, void *cfg, void *h, void **o, void **dh)
{
	return *(int *)cfg == -1 ? connect_device(d, h, o, dh) : ARGUMENT;
}
const void *const ncclNetPlugin_v6[17] = { NAME, init, devices, props_nccl6, listen_at, connect_to, accept_from, reg_int,
	NULL, dereg, isend, irecv, iflush, ENDS };
const void *const ncclNetPlugin_v7[19] = { NAME, init, devices, props_nccl6, listen_at, connect_device, accept_device,
	reg_int, NULL, dereg, isend, irecv, iflush, ENDS };
const void *const ncclNetPlugin_v8[19] = { NAME, init, devices, props_nccl8, listen_at, connect_device, accept_device,
	reg, NULL, dereg, isend, irecv, iflush, ENDS };
const void *const ncclNetPlugin_v9[20] = { NAME, init, devices, props_nccl12, listen_at, connect_device, accept_device,
	reg, NULL, dereg, isend9, irecv9, iflush, ENDS };
const void *const ncclNetPlugin_v10[20] = { NAME, init_profiled, devices, props_nccl12, listen_at, connect_config,
	accept_device, reg, NULL, dereg, isend_profiled, irecv_profiled, iflush, ENDS };
const void *const ncclNetPlugin_v11[22] = { NAME, init_context, devices, props_nccl12, listen_context, connect_context,
	accept_device, reg, NULL, dereg, isend_profiled, irecv_profiled, iflush, ENDS, NULL, NULL, NULL, finalize, NULL };
const void *const ncclNetPlugin_v12[22] = { NAME, init_context, devices, props_nccl12, listen_context, connect_context,
	accept_device, reg, NULL, dereg, isend_profiled, irecv_profiled, iflush, ENDS, NULL, NULL, NULL, finalize, NULL };
#endif
