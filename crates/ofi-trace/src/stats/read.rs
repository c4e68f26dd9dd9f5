//! Any bytes to the counters of a process. The bytes are hostile: every place is checked, nothing panics, and
//! texts have no control characters.

use super::layout::{
    COMM_WORDS, CommAt, HEAD_WORDS, HOST_WORDS, HW_MAX, HW_NAME_WORDS, HW_WORDS, HeadAt, MAGIC,
    NIC_WORDS, PEER_WORDS, RAIL_WORDS, RailAt, State, Total, VERSION, total_word,
};
use super::possible;
use alloc::string::String;
use alloc::vec::Vec;

/// The largest room for rails and communicators that a file can speak of.
const ROOM_MAX: u64 = 1 << 16;

/// Why bytes are not the counters of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StatsError {
    /// The file does not begin as one of counters does, or is being made.
    #[error("no file of counters: it does not begin with OFISTATS")]
    NotStats,
    /// Another version of the layout.
    #[error("version {version} of the layout; this reader knows version {VERSION}")]
    Version {
        /// As it stands in the file.
        version: u64,
    },
    /// The file is shorter than it says, or says what cannot be.
    #[error("cut off or damaged: {len} bytes, and its head speaks of {words} words")]
    Damaged {
        /// Bytes of the file.
        len: usize,
        /// Words, as it says.
        words: u64,
    },
    /// A word that no process writes.
    #[error("damaged: its word {at} is {value:#x}, and no process writes that there")]
    Impossible {
        /// Which.
        at: usize,
        /// As it stands in the file.
        value: u64,
    },
}

/// The counters of one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The process.
    pub pid: u32,
    /// When it started, in ticks since its host did; 0: unknown.
    pub start_ticks: u64,
    /// The first bits of its host's `boot_id`; 0: unknown.
    pub boot: u64,
    /// Its namespace of process ids; 0: unknown.
    pub pid_namespace: u64,
    /// Its host.
    pub host: String,
    /// When the file was made, milliseconds since 1970.
    pub opened_ms: u64,
    /// When something was last written, milliseconds since 1970.
    pub updated_ms: u64,
    /// It closed its transport.
    pub ended: bool,
    /// 0: libnccom-net.so; 1: libnccl-net-ofi.so.
    pub flavour: u64,
    /// 0: RDMA; 1: SENDRECV.
    pub protocol: u64,
    /// Communicators open now.
    pub comms_open: u64,
    /// Those among them that have no slot.
    pub comms_unseen: u64,
    /// Communicators opened so far.
    pub comms_ever: u64,
    /// Rails without a slot.
    pub rails_unseen: u64,
    /// In the order of [`Total::ALL`].
    pub totals: [u64; Total::ALL.len()],
    /// Its rails.
    pub rails: Vec<Rail>,
    /// Its communicators that have a slot.
    pub comms: Vec<Comm>,
    /// Slots of communicators that were being changed.
    pub torn: usize,
}

/// A rail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rail {
    /// Index of its device.
    pub device: u64,
    /// Its number in the device.
    pub rail: u64,
    /// Name of the NIC.
    pub nic: String,
    /// Segments that the provider took.
    pub segments: u64,
    /// Bytes that the provider took.
    pub bytes_sent: u64,
    /// Bytes that came in, as far as the provider tells lengths.
    pub bytes_received: u64,
    /// Completions read.
    pub completions: u64,
    /// Times the provider said EAGAIN.
    pub busy: u64,
    /// Error entries.
    pub errors: u64,
    /// Its hardware counters.
    pub hw: Vec<Hw>,
}

/// A hardware counter of a rail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hw {
    /// Its name in sysfs.
    pub name: String,
    /// Its value when the rail was opened.
    pub base: u64,
    /// Its value when it was last read.
    pub last: u64,
}

impl Hw {
    /// What it has counted since the rail was opened. A value below the first one means that the NIC started
    /// again meanwhile (its driver was loaded anew, it was reset), from 0: what it says now is all there is.
    #[must_use]
    pub const fn since(&self) -> u64 {
        match self.last.checked_sub(self.base) {
            Some(since) => since,
            None => self.last,
        }
    }
}

/// Which way the messages of a communicator go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// It sends.
    Send,
    /// It receives.
    Recv,
}

/// A communicator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comm {
    /// Tells it from the one that had its slot before.
    pub generation: u64,
    /// Which way.
    pub side: Side,
    /// Its wire id.
    pub id: u64,
    /// Index of its device.
    pub device: u64,
    /// Number of its domain.
    pub domain: u64,
    /// When it was opened, milliseconds since 1970.
    pub opened_ms: u64,
    /// Messages admitted.
    pub messages: u64,
    /// Sends among them that went eagerly.
    pub eager: u64,
    /// Bytes of messages that are done.
    pub bytes: u64,
    /// Times the provider said EAGAIN to it.
    pub busy: u64,
    /// Requests outstanding.
    pub outstanding: u64,
    /// The peer's address; empty: unknown.
    pub peer: String,
}

impl Snapshot {
    /// Reads a file.
    ///
    /// # Errors
    /// What the bytes are instead. A process that was killed leaves a good file.
    pub fn read(bytes: &[u8]) -> Result<Self, StatsError> {
        let words = Words(bytes);
        let head = |at: HeadAt| words.get(at as usize);
        if head(HeadAt::Magic) != MAGIC {
            return Err(StatsError::NotStats);
        }
        let version = head(HeadAt::Version);
        if version != VERSION {
            return Err(StatsError::Version { version });
        }
        let damaged = StatsError::Damaged {
            len: bytes.len(),
            words: head(HeadAt::Words),
        };
        let room = |at| usize::try_from(head(at).min(ROOM_MAX)).map_err(|_| damaged);
        let (rails_max, comms_max) = (room(HeadAt::Rails)?, room(HeadAt::Comms)?);
        let comms_from = HEAD_WORDS + rails_max * RAIL_WORDS;
        let end = comms_from + comms_max * COMM_WORDS;
        if usize::try_from(head(HeadAt::Words)) != Ok(end) || bytes.len() < end * 8 {
            return Err(damaged);
        }
        let rails = (0..rails_max).map(|slot| HEAD_WORDS + slot * RAIL_WORDS);
        let comms = (0..comms_max).map(|slot| comms_from + slot * COMM_WORDS);
        if let Some(at) = possible::fault(&words, rails.clone(), comms.clone()) {
            let value = words.get(at);
            return Err(StatsError::Impossible { at, value });
        }
        let mut totals = [0; Total::ALL.len()];
        for (value, (total, ..)) in totals.iter_mut().zip(Total::ALL) {
            *value = words.get(total_word(total));
        }
        let (comms, torn) = words.comms(comms);
        Ok(Self {
            pid: u32::try_from(head(HeadAt::Pid)).unwrap_or(0),
            start_ticks: head(HeadAt::StartTicks),
            boot: head(HeadAt::Boot),
            pid_namespace: head(HeadAt::PidNamespace),
            host: words.text(HeadAt::Host as usize, HOST_WORDS),
            opened_ms: head(HeadAt::Opened),
            updated_ms: head(HeadAt::Updated),
            ended: head(HeadAt::State) == State::Ended as u64,
            flavour: head(HeadAt::Flavour),
            protocol: head(HeadAt::Protocol),
            comms_open: head(HeadAt::CommsOpen),
            comms_unseen: head(HeadAt::CommsUnseen),
            comms_ever: head(HeadAt::CommsEver),
            rails_unseen: head(HeadAt::RailsUnseen),
            totals,
            rails: rails.filter_map(|at| words.rail(at)).collect(),
            comms,
            torn,
        })
    }

    /// A number of the whole process.
    #[must_use]
    pub fn total(&self, total: Total) -> u64 {
        self.totals.get(total as usize).copied().unwrap_or(0)
    }
}

/// The words of a file; 0 beyond its end.
pub(super) struct Words<'a>(&'a [u8]);

impl Words<'_> {
    pub(super) fn get(&self, at: usize) -> u64 {
        let bytes = at.checked_mul(8).and_then(|from| self.0.get(from..));
        let word = bytes.and_then(|rest| rest.first_chunk::<8>());
        word.map_or(0, |word| u64::from_le_bytes(*word))
    }

    /// A text of `words` words: what stands before its first zero, without control characters.
    fn text(&self, at: usize, words: usize) -> String {
        let bytes = (at..at + words).flat_map(|word| self.get(word).to_le_bytes());
        let bytes: Vec<u8> = bytes.take_while(|&byte| byte != 0).collect();
        let shown = |c: char| if c.is_control() { '?' } else { c };
        String::from_utf8_lossy(&bytes).chars().map(shown).collect()
    }

    fn rail(&self, from: usize) -> Option<Rail> {
        let word = |at: RailAt| self.get(from + at as usize);
        if word(RailAt::Used) != 1 {
            return None;
        }
        let hw = (0..HW_MAX).map(|counter| from + RailAt::Hw as usize + counter * HW_WORDS);
        let hw = hw.map(|at| Hw {
            name: self.text(at, HW_NAME_WORDS),
            base: self.get(at + 4),
            last: self.get(at + 5),
        });
        Some(Rail {
            device: word(RailAt::Device),
            rail: word(RailAt::Rail),
            nic: self.text(from + RailAt::Nic as usize, NIC_WORDS),
            segments: word(RailAt::Segments),
            bytes_sent: word(RailAt::BytesSent),
            bytes_received: word(RailAt::BytesReceived),
            completions: word(RailAt::Completions),
            busy: word(RailAt::Busy),
            errors: word(RailAt::Errors),
            hw: hw.filter(|hw| !hw.name.is_empty()).collect(),
        })
    }

    /// The communicators of slots, and how many slots were being changed.
    fn comms(&self, slots: impl Iterator<Item = usize>) -> (Vec<Comm>, usize) {
        let (mut comms, mut torn) = (Vec::new(), 0);
        for from in slots {
            let word = |at: CommAt| self.get(from + at as usize);
            let generation = word(CommAt::First);
            if generation != word(CommAt::Last) {
                torn += 1;
            } else if generation != 0 {
                comms.push(self.comm(from, generation));
            }
        }
        (comms, torn)
    }

    fn comm(&self, from: usize, generation: u64) -> Comm {
        let word = |at: CommAt| self.get(from + at as usize);
        Comm {
            generation,
            side: match word(CommAt::Side) {
                0 => Side::Send,
                _ => Side::Recv,
            },
            id: word(CommAt::Id),
            device: word(CommAt::Device),
            domain: word(CommAt::Domain),
            opened_ms: word(CommAt::Opened),
            messages: word(CommAt::Messages),
            eager: word(CommAt::Eager),
            bytes: word(CommAt::Bytes),
            busy: word(CommAt::Busy),
            outstanding: word(CommAt::Outstanding),
            peer: self.text(from + CommAt::Peer as usize, PEER_WORDS),
        }
    }
}
