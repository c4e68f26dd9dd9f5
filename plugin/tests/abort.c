/* SPDX-License-Identifier: Apache-2.0
 * OFI_NCCL_ABORT_ON_ERROR=1: every error that a call returns ends the process, but for a close after
 * fini (protocol 2a.1).
 *
 * usage: OFI_NCCL_ABORT_ON_ERROR=1 abort PLUGIN */
#include "common.h"
#include <sys/resource.h>

static const char *plugin;

static struct net started(void)
{
    struct net net = load(plugin, 6);
    start(&net);
    return net;
}

static void unknown_device(int socket, void *argument)
{
    void *comm;
    char handle[OFI_NCCL_HANDLE_BYTES] = {0};
    (void)socket, (void)argument;
    started().v6->listen(-1, handle, &comm);
}

static void after_fini(int socket, void *argument)
{
    struct net net = started();
    int count;
    (void)socket, (void)argument;
    EXPECT(0, net.v6->fini());
    net.v6->devices(&count);
}

static void failing_init(int socket, void *argument)
{
    (void)socket, (void)argument;
    setenv("OFI_NCCL_RDMA_MIN_POSTED_BOUNCE_BUFFERS", "64", 1); /* withdrawn */
    load(plugin, 6).v6->init(logger);
}

static void close_after_fini(int socket, void *argument)
{
    struct net net = started();
    void *word = (void *)0x4000000000000001;
    (void)socket, (void)argument;
    EXPECT(0, net.v6->fini());
    warnings = 0;
    EXPECT(4, net.v6->closeSend(word));
    EXPECT(4, net.v6->closeRecv(word));
    EXPECT(4, net.v6->closeListen(word));
    CHECK(warnings == 0, "a warning: %s", last_warning);
}

static void aborts(void (*body)(int, void *))
{
    struct peer process = fork_peer(body, NULL);
    int status;
    CHECK(waitpid(process.pid, &status, 0) == process.pid, "waitpid: %s", strerror(errno));
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "it ended with status %#x", status);
}

int main(int argc, char **argv)
{
    struct rlimit no_core = {0, 0};
    CHECK(argc == 2 && getenv("OFI_NCCL_ABORT_ON_ERROR"), "usage: abort PLUGIN, with the variable set");
    setrlimit(RLIMIT_CORE, &no_core);
    watchdog(60);
    plugin = argv[1];
    join(fork_peer(close_after_fini, NULL));
    aborts(unknown_device);
    aborts(after_fini);
    aborts(failing_init);
    puts("ok");
    return 0;
}
