/* SPDX-License-Identifier: Apache-2.0
 * `*request` of irecv as an input: 1 says that the caller sees for itself that the data is there. With
 * eager messages off and a provider that moves data by itself the request is then done, with size 0,
 * before there is a send; elsewhere it is like any other. The fabric efa-direct does; tcp only says so, and
 * is believed when that is asked for. Without the 1 it always waits for its data.
 *
 * usage: optional PLUGIN VERSION (5 or 6), with OFI_NCCL_EAGER_MAX_SIZE=-1 */
#include "common.h"

enum { BYTES = 100000 };

static unsigned char source[BYTES], sink[BYTES];

/* A listener that nobody connects to. */
static void *idle;

/* One message; whether its receive was done before its send began. */
static int message(struct net *net, void *sender, void *receiver, void **mr, void *word, unsigned n)
{
    void *received, *sent = NULL;
    int done = 0, size = -1, early = 0;
    double end = now() + 30;
    fill(source, BYTES, n);
    memset(sink, 0, BYTES);
    do {
        received = word;
        EXPECT(0, net_irecv(net, receiver, sink, BYTES, mr[1], &received));
        CHECK(now() < end, "no receive");
    } while (!received);
    CHECK(received != word, "the request is still the word that was given");
    for (int i = 0; i < 300 && !early; i++) {
        EXPECT(0, PICK(net, test)(received, &early, &size));
        between_calls();
    }
    CHECK(!early || size == 0, "an early receive says %d bytes", size);
    while (!sent) {
        EXPECT(0, net_isend(net, sender, source, BYTES, mr[0], &sent));
        CHECK(now() < end, "no send");
    }
    EXPECT(0, net_wait(net, sent, &size, 30));
    CHECK(size == BYTES, "%d bytes sent", size);
    if (!early) {
        EXPECT(0, net_wait(net, received, &done, 30));
        CHECK(done == BYTES, "%d bytes received", done);
    }
    /* It says that it moves data by itself, and 1.22 and 2.5 do so only inside calls: with none, the
     * last bytes never came. Any call on the domain will do; this one waits for nobody. */
    for (volatile unsigned char *last = sink + BYTES - 1; early && *last != source[BYTES - 1];) {
        void *none = NULL;
        EXPECT(0, PICK(net, accept)(idle, &none));
        CHECK(now() < end, "the data never came");
    }
    verify(sink, BYTES, n);
    return early;
}

int main(int argc, char **argv)
{
    CHECK(argc == 3, "usage: optional PLUGIN VERSION (5 or 6: accept of v4 waits)");
    watchdog(120);
    struct net net = load(argv[1], atoi(argv[2]));
    char handle[OFI_NCCL_HANDLE_BYTES] = {0};
    void *listener, *sender = NULL, *receiver = NULL, *mr[2];
    double end = now() + 30;
    setenv("OFI_NCCL_EARLY_COMPLETION", "1", 1);
    /* The tcp provider itself says that it moves data; tcp;ofi_rxm, shm and the fabric efa do not, and
     * init fails. */
    int automatic = PICK(&net, init)(logger) == 0;
    if (!automatic) {
        CHECK(strstr(last_warning, "OFI-E0206"), "init failed: %s", last_warning);
        warnings = 0;
        unsetenv("OFI_NCCL_EARLY_COMPLETION");
        start(&net);
    }
    int says_so = strstr(chosen_provider, "provider tcp:") || strstr(chosen_provider, "provider net:") ||
                  moves_by_itself();
    CHECK(automatic == says_so, "early completion: %d, and %s", automatic, chosen_provider);
    EXPECT(0, PICK(&net, listen)(0, handle, &listener));
    while (!sender || !receiver) {
        if (!sender)
            EXPECT(0, PICK(&net, connect)(0, handle, &sender));
        if (!receiver)
            EXPECT(0, PICK(&net, accept)(listener, &receiver));
        CHECK(now() < end, "no connection to itself");
    }
    memset(handle, 0, sizeof handle);
    EXPECT(0, PICK(&net, listen)(0, handle, &idle));
    EXPECT(0, PICK(&net, regMr)(sender, source, BYTES, OFI_NCCL_PTR_HOST, &mr[0]));
    EXPECT(0, PICK(&net, regMr)(receiver, sink, BYTES, OFI_NCCL_PTR_HOST, &mr[1]));
    for (unsigned n = 0; n < 12; n++) {
        int optional = n % 3 != 2;
        int early = message(&net, sender, receiver, mr, optional ? (void *)1 : NULL, n);
        CHECK(early == (optional && automatic), "message %u: early %d, optional %d", n, early, optional);
    }
    printf("early completion: %s\n", automatic ? "yes" : "no");
    EXPECT(0, PICK(&net, deregMr)(sender, mr[0]));
    EXPECT(0, PICK(&net, deregMr)(receiver, mr[1]));
    EXPECT(0, PICK(&net, closeSend)(sender));
    EXPECT(0, PICK(&net, closeRecv)(receiver));
    EXPECT(0, PICK(&net, closeListen)(listener));
    EXPECT(0, PICK(&net, closeListen)(idle));
    finish(&net);
    CHECK(warnings == 0, "a warning: %s", last_warning);
    puts("ok");
    return 0;
}
