//! Where each word stands, version 1.

/// The first word: `OFISTATS`.
pub const MAGIC: u64 = u64::from_le_bytes(*b"OFISTATS");

/// The version of the layout.
pub const VERSION: u64 = 1;

/// Words of the head, totals included.
pub const HEAD_WORDS: usize = 64;

/// Rails there is room for: NICs that devices of one process use. Of further ones only the totals tell.
pub const RAILS_MAX: usize = 64;

/// Words of a rail.
pub const RAIL_WORDS: usize = 16 + HW_MAX * HW_WORDS;

/// Hardware counters of a rail there is room for.
pub const HW_MAX: usize = 32;

/// Words of a hardware counter: its name, its value when the rail was opened, its value since.
pub const HW_WORDS: usize = 6;

/// Words of the name of a host.
pub(super) const HOST_WORDS: usize = 8;

/// Words of the name of a NIC.
pub(super) const NIC_WORDS: usize = 6;

/// Words of the name of a hardware counter.
pub(super) const HW_NAME_WORDS: usize = 4;

/// Words of the address of a peer.
pub(super) const PEER_WORDS: usize = 8;

/// Communicators there is room for at a time. Of further ones only the totals and the rails tell.
pub const COMMS_MAX: usize = 512;

/// Words of a communicator.
pub const COMM_WORDS: usize = 24;

/// Words of a file.
pub const FILE_WORDS: usize = HEAD_WORDS + RAILS_MAX * RAIL_WORDS + COMMS_MAX * COMM_WORDS;

const _: () = assert!(HeadAt::Totals as usize + Total::ALL.len() <= HEAD_WORDS);

/// A word of the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum HeadAt {
    /// [`MAGIC`], written last.
    Magic = 0,
    /// [`VERSION`].
    Version = 1,
    /// Words of the file.
    Words = 2,
    /// Rails there is room for.
    Rails = 3,
    /// Communicators there is room for.
    Comms = 4,
    /// The process.
    Pid = 5,
    /// When the process started, in ticks since the host did (`proc_pid_stat(5)`, field 22); 0: unknown.
    /// Another process of that number has another one.
    StartTicks = 6,
    /// The first 64 bits of the host's `boot_id` (`random(4)`); 0: unknown. Processes of another boot are gone.
    Boot = 7,
    /// When the file was made, milliseconds since 1970.
    Opened = 8,
    /// When something was last written into it, milliseconds since 1970.
    Updated = 9,
    /// A [`State`].
    State = 10,
    /// 0: libnccom-net.so; 1: libnccl-net-ofi.so.
    Flavour = 11,
    /// 0: RDMA; 1: SENDRECV.
    Protocol = 12,
    /// Communicators that are open now.
    CommsOpen = 13,
    /// Those among them that have no slot.
    CommsUnseen = 14,
    /// Communicators that were opened so far.
    CommsEver = 15,
    /// Rails that have no slot.
    RailsUnseen = 16,
    /// Number of the process's namespace of process ids (`pid_namespaces(7)`); 0: unknown. In another one,
    /// the number of the process says nothing.
    PidNamespace = 17,
    /// Eight words: the host's name, zero padded.
    Host = 20,
    /// The first [`Total`].
    Totals = 32,
}

/// How far a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum State {
    /// It uses the network, or was ended without a word.
    Live = 1,
    /// It closed its transport: the numbers are final.
    Ended = 2,
}

/// A number of the whole process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Total {
    /// Sends admitted.
    Sends,
    /// Sends among them that went eagerly.
    EagerSends,
    /// Receives admitted.
    Recvs,
    /// One-sided operations admitted.
    OneSided,
    /// Bytes of sends that are done.
    BytesSent,
    /// Bytes of receives that are done.
    BytesReceived,
    /// Segments (written stripes) that providers took.
    Segments,
    /// CTRL messages posted.
    Ctrls,
    /// Times a provider said EAGAIN.
    Busy,
    /// Operations that went out after they had waited for a provider.
    Retried,
    /// Calls answered "not now".
    NotNow,
    /// Messages for nobody, dropped.
    Strays,
    /// Communicators that failed.
    Failures,
    /// Operations that failed after the first one of their communicator.
    Followers,
    /// Error entries of completion queues, cancelled receives not counted.
    Errors,
    /// Events that the log never saw.
    EventsLost,
    /// Calls that register memory.
    RegRequests,
    /// Registrations that providers made for them.
    Registrations,
    /// Calls that found the memory registered already.
    RegHits,
    /// Calls that failed.
    RegFailures,
    /// Rails on which no receive is posted any more, since they only failed.
    LanesGivenUp,
}

impl Total {
    /// All, in their order in the file, with the name that people read them by.
    pub const ALL: [(Self, &'static str, &'static str); 21] = [
        (Self::Sends, "sends", "sends admitted"),
        (Self::EagerSends, "eager_sends", "sends that went eagerly"),
        (Self::Recvs, "recvs", "receives admitted"),
        (Self::OneSided, "one_sided", "one-sided operations admitted"),
        (
            Self::BytesSent,
            "sent_bytes",
            "bytes of sends that are done",
        ),
        (
            Self::BytesReceived,
            "received_bytes",
            "bytes of receives that are done",
        ),
        (Self::Segments, "segments", "segments that providers took"),
        (Self::Ctrls, "ctrls", "CTRL messages posted"),
        (Self::Busy, "busy", "times a provider said EAGAIN"),
        (
            Self::Retried,
            "retried",
            "operations that went out after waiting for a provider",
        ),
        (Self::NotNow, "not_now", "calls answered not now"),
        (Self::Strays, "strays", "messages for nobody, dropped"),
        (Self::Failures, "failures", "communicators that failed"),
        (
            Self::Followers,
            "followers",
            "operations that failed after the first of their communicator",
        ),
        (Self::Errors, "errors", "error entries of completion queues"),
        (
            Self::EventsLost,
            "events_lost",
            "events that the log never saw",
        ),
        (
            Self::RegRequests,
            "reg_requests",
            "calls that register memory",
        ),
        (
            Self::Registrations,
            "registrations",
            "registrations that providers made for them",
        ),
        (
            Self::RegHits,
            "reg_hits",
            "calls that found the memory registered",
        ),
        (
            Self::RegFailures,
            "reg_failures",
            "calls that register memory and failed",
        ),
        (
            Self::LanesGivenUp,
            "lanes_given_up",
            "rails on which receives only failed, so that none is posted any more",
        ),
    ];
}

/// A word of a rail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum RailAt {
    /// 1 once the rest of its first words stand; 0: nobody's.
    Used = 0,
    /// Index of its device.
    Device = 1,
    /// Its number in the device.
    Rail = 2,
    /// Six words: name of the NIC, zero padded.
    Nic = 3,
    /// Segments that the provider took.
    Segments = 9,
    /// Bytes that the provider took: of segments, eager messages, one-sided writes.
    BytesSent = 10,
    /// Bytes that came in, as far as the provider tells lengths.
    BytesReceived = 11,
    /// Completions read.
    Completions = 12,
    /// Times the provider said EAGAIN.
    Busy = 13,
    /// Error entries, cancelled receives not counted.
    Errors = 14,
    /// The first hardware counter: see [`hw_word`].
    Hw = 16,
}

/// A word of a communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum CommAt {
    /// Its generation; 0: nobody's.
    First = 0,
    /// 0: it sends; 1: it receives.
    Side = 1,
    /// Its wire id.
    Id = 2,
    /// Index of its device.
    Device = 3,
    /// Number of its domain.
    Domain = 4,
    /// When it was opened, milliseconds since 1970.
    Opened = 5,
    /// Messages admitted.
    Messages = 6,
    /// Sends among them that went eagerly.
    Eager = 7,
    /// Bytes of messages that are done.
    Bytes = 8,
    /// Times the provider said EAGAIN to it.
    Busy = 9,
    /// Requests outstanding.
    Outstanding = 10,
    /// Eight words: the peer's address as people read it, zero padded.
    Peer = 12,
    /// The generation again.
    Last = 23,
}

/// The word of a total.
#[must_use]
pub const fn total_word(total: Total) -> usize {
    HeadAt::Totals as usize + total as usize
}

/// A word of a rail's slot.
#[must_use]
pub const fn rail_word(slot: usize, at: RailAt) -> usize {
    HEAD_WORDS + slot * RAIL_WORDS + at as usize
}

/// The first word of a rail's hardware counter: four words are its name, zero padded, the fifth its value when
/// the rail was opened, the sixth its value when it was last read.
#[must_use]
pub const fn hw_word(slot: usize, counter: usize) -> usize {
    rail_word(slot, RailAt::Hw) + counter * HW_WORDS
}

/// A word of a communicator's slot.
#[must_use]
pub const fn comm_word(slot: usize, at: CommAt) -> usize {
    HEAD_WORDS + RAILS_MAX * RAIL_WORDS + slot * COMM_WORDS + at as usize
}

/// A text as words, cut to what fits and zero padded.
#[must_use]
pub fn text_words<const N: usize>(text: &str) -> [u64; N] {
    let mut words = [0; N];
    for (word, bytes) in words.iter_mut().zip(text.as_bytes().chunks(8)) {
        let mut whole = [0; 8];
        whole
            .iter_mut()
            .zip(bytes)
            .for_each(|(to, from)| *to = *from);
        *word = u64::from_le_bytes(whole);
    }
    words
}
