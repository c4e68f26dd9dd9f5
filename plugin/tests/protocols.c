/* SPDX-License-Identifier: Apache-2.0
 * Two processes of which one speaks RDMA and the other SENDRECV: the one that connects is told at once,
 * the one that accepts after OFI_NCCL_STALL_WARN; each by one warning that names the variable.
 *
 * The second listener of RDMA has a number that one of the reference's SENDRECV can have: there the other
 * side cannot be sure, and its warning says so.
 *
 * usage: OFI_NCCL_STALL_WARN=1 OFI_NCCL_CONNECT_TIMEOUT=3 protocols PLUGIN VERSION */
#include "common.h"

#include <poll.h>

static const char *plugin;
static int version;

static struct net speaks(const char *protocol)
{
    CHECK(setenv("OFI_NCCL_PROTOCOL", protocol, 1) == 0, "%s", strerror(errno));
    struct net net = load(plugin, version);
    start(&net);
    CHECK(warnings == 0, "a warning at the start: %s", last_warning);
    return net;
}

/* The last of so many warnings says all of these. */
static void told(int count, const char *const texts[])
{
    CHECK(warnings == count, "%d warnings, the last: %s", warnings, last_warning);
    for (int i = 0; texts[i]; i++)
        CHECK(strstr(last_warning, texts[i]), "no \"%s\" in: %s", texts[i], last_warning);
}

static void ends(struct net *net, int count)
{
    net_end(net);
    CHECK(warnings == count, "%d warnings, the last: %s", warnings, last_warning);
    unload(net->library);
}

static int said(int socket)
{
    struct pollfd it = {.fd = socket, .events = POLLIN};
    return poll(&it, 1, 0) == 1;
}

/* Listens twice, gives both handles away, and waits for either: until this side is told, and the other has
 * said that it was too. Whoever ended before would be a peer that is gone, which has an error of its own. */
static void accepts(int socket, void *protocol)
{
    struct net net = speaks(protocol);
    void *listener[2], *comm = NULL;
    char over;
    double end = now() + 60;
    for (int i = 0; i < 2; i++) {
        char handle[OFI_NCCL_HANDLE_BYTES] = {0};
        EXPECT(0, PICK(&net, listen)(0, handle, &listener[i]));
        put(socket, handle, sizeof handle);
    }
    while (warnings == 0 || !said(socket)) {
        EXPECT(0, PICK(&net, accept)(listener[0], &comm));
        CHECK(comm == NULL, "a connection was made");
        CHECK(now() < end, "%d warnings, or no word of the other side", warnings);
        between_calls();
    }
    take(socket, &over, 1);
    const char *const texts[] = {"OFI-W0415", "; likely: the peer failed", "the other protocol, RDMA or SENDRECV",
                                 "OFI_NCCL_PROTOCOL", "instance type", NULL};
    told(1, texts);
    for (int i = 0; i < 2; i++)
        EXPECT(0, PICK(&net, closeListen)(listener[i]));
    ends(&net, 1);
}

static void refused(struct net *net, int socket, const char *likely)
{
    char handle[OFI_NCCL_HANDLE_BYTES];
    void *comm = NULL;
    take(socket, handle, sizeof handle);
    double before = now();
    CHECK(net_connect(net, handle, &comm, 30) != 0 && comm == NULL, "connect succeeded");
    CHECK(now() - before < 3, "the deadline was waited for");
    const char *const texts[] = {"OFI-E0401", "the listener of ", likely,  "; likely: the other side speaks",
                                 "OFI_NCCL_PROTOCOL", "instance type", NULL};
    told(1, texts);
}

static void rdma_connects(void)
{
    struct peer peer = fork_peer(accepts, "SENDRECV");
    struct net net = speaks("RDMA");
    refused(&net, peer.socket, "it is of SENDRECV, where this side speaks RDMA");
    char handle[OFI_NCCL_HANDLE_BYTES];
    take(peer.socket, handle, sizeof handle);
    put(peer.socket, "", 1);
    ends(&net, 1);
    join(peer);
}

static void sendrecv_connects(void)
{
    struct peer peer = fork_peer(accepts, "RDMA");
    struct net net = speaks("SENDRECV");
    char handle[OFI_NCCL_HANDLE_BYTES];
    void *comm = NULL;
    refused(&net, peer.socket, "it is of RDMA, where this side speaks SENDRECV");
    take(peer.socket, handle, sizeof handle);
    /* shm of 1.22 follows a null pointer when an endpoint without tags is closed that was sent a tagged
     * message; ofi_rxm of 1.17 closes badly too. */
    if (strstr(chosen_provider, "provider shm") || strstr(chosen_provider, "ofi_rxm")) {
        puts("skipped: a message of SENDRECV to an endpoint of RDMA (shm, rxm)");
        put(peer.socket, "", 1);
        ends(&net, 1);
        return join(peer);
    }
    warnings = 0;
    int result = PICK(&net, connect)(0, handle, &comm);
    const char *const unsure[] = {"OFI-W0414", "; likely: the other side speaks RDMA", "OFI_NCCL_PROTOCOL", NULL};
    if (result == 0)
        told(1, unsure);
    /* Its message goes out, or to nobody: where protocols have fabrics of their own. Then it is an error in
     * time, or at once where the other fabric says that it has no such endpoint. */
    if (result == 0 && !comm)
        result = net_connect(&net, handle, &comm, 30);
    int count = result == 0 ? 1 : 2;
    if (count == 1) {
        told(1, unsure);
        EXPECT(0, PICK(&net, closeSend)(comm));
    } else {
        const char *const late[] = {"OFI-E0402", "OFI_NCCL_PROTOCOL", NULL};
        const char *const refused[] = {"OFI-E0601", "Conn on data rail 0 failed", "another fabric", "OFI_NCCL_PROTOCOL", NULL};
        told(2, strstr(last_warning, "OFI-E0402") ? late : refused);
    }
    put(peer.socket, "", 1);
    ends(&net, count);
    join(peer);
}

int main(int argc, char **argv)
{
    CHECK(argc == 3, "usage: protocols PLUGIN VERSION");
    plugin = argv[1];
    version = atoi(argv[2]);
    watchdog(100);
    /* Each order in a process of its own: what a process speaks is settled once. */
    void (*const orders[])(void) = {rdma_connects, sendrecv_connects};
    for (int i = 0; i < 2; i++) {
        fflush(NULL);
        pid_t pid = fork();
        CHECK(pid >= 0, "fork: %s", strerror(errno));
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            orders[i]();
            exit(0);
        }
        int status = 0;
        CHECK(waitpid(pid, &status, 0) == pid, "waitpid: %s", strerror(errno));
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "order %d ended with status %#x", i, status);
    }
    puts("ok");
    return 0;
}
