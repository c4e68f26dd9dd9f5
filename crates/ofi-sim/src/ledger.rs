//! The truth about every link, kept beside the engines: what was asked for, and what may therefore
//! be seen on the wire and in memory.

use ofi_rdma::RegionId;
use ofi_rdma::limits::ID_QUARANTINE;

use crate::pattern::Plan;

/// Ids below this fit the wire (protocol 2c.1).
const IDS: u32 = 1 << 18;

/// Ids from here on are never reached in a simulation.
pub(crate) const UNUSED_IDS: u32 = 1 << 17;

/// What an id of a host belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Listener,
    Send,
    Recv,
}

/// Index of the sending and of the receiving side in arrays of two.
pub(crate) const SEND: usize = 0;
/// See [`SEND`].
pub(crate) const RECV: usize = 1;

#[derive(Clone, Copy, Debug)]
struct IdUse {
    link: u16,
    life: u32,
    role: Role,
    /// Ids that this host had taken before.
    taken: u64,
}

/// Takings of ids after which a freed one may be in use again, unknown to the ledger until its first
/// message: less than the quarantine of ids.
const RESTS: u64 = ID_QUARANTINE as u64 / 2;

/// What an operation is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Connection and close messages.
    Setup,
    /// CTRL of a receive.
    Ctrl,
    /// Eager payload or segment.
    Data,
    /// Copy of an eager payload.
    Copy,
    /// Flush read.
    Flush,
    /// One-sided write of the sender.
    Put,
    /// One-sided read of the receiver.
    Get,
}

/// Whose an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) link: u16,
    pub(crate) life: u32,
    pub(crate) k: u64,
    pub(crate) part: Part,
}

/// One side's view of one message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    /// Number of the message; meaningless unless live.
    pub(crate) k: u64,
    /// Whether the request exists and `test` has not said Done.
    pub(crate) live: bool,
    /// Buffer of this side.
    pub(crate) addr: u64,
    pub(crate) len: u64,
    pub(crate) region: RegionId,
    /// Bytes posted (sender) or landed (receiver).
    pub(crate) moved: u64,
    /// Segments posted or landed, and how many their immediate promised.
    pub(crate) segs: u32,
    pub(crate) nseg: u32,
    /// Operations accepted whose completions the engine has not been given.
    pub(crate) flying: u32,
    /// Sender: the CTRL was given to the engine. Receiver: the CTRL was posted.
    pub(crate) ctrl: bool,
    /// Sender: the engine chose to send it eagerly.
    pub(crate) chosen: bool,
    /// The data went, or came, eagerly.
    pub(crate) eager: bool,
    /// Receiver: the eager copy was posted.
    pub(crate) copied: bool,
    /// Receiver: it is done with its CTRL, and its data comes without an immediate.
    pub(crate) optional: bool,
}

impl Record {
    const NOTHING: Self = Self {
        k: 0,
        live: false,
        addr: 0,
        len: 0,
        region: RegionId(0),
        moved: 0,
        segs: 0,
        nseg: 0,
        flying: 0,
        ctrl: false,
        chosen: false,
        eager: false,
        copied: false,
        optional: false,
    };
}

/// The newest messages of one side: more than can be in flight or expected.
#[derive(Debug)]
pub(crate) struct Ring {
    records: Box<[Record]>,
    pub(crate) next: u64,
    /// One more than the newest message of which anything was noted: the rest needs no clearing.
    noted: u64,
}

/// Twice the window of sequence numbers.
const RING: u64 = 512;

impl Ring {
    fn new() -> Self {
        Self {
            records: vec![Record::NOTHING; 512].into_boxed_slice(),
            next: 0,
            noted: 0,
        }
    }

    fn slot(k: u64) -> usize {
        usize::try_from(k % RING).unwrap_or(0)
    }

    /// Message `k`, if its request was made and is not forgotten.
    pub(crate) fn get(&self, k: u64) -> Option<&Record> {
        self.records
            .get(Self::slot(k))
            .filter(|r| r.live && r.k == k)
    }

    /// See [`Ring::get`].
    pub(crate) fn get_mut(&mut self, k: u64) -> Option<&mut Record> {
        self.records
            .get_mut(Self::slot(k))
            .filter(|r| r.live && r.k == k)
    }

    /// A request for message `next` was made.
    pub(crate) fn admit(&mut self, addr: u64, len: u64, region: RegionId, chosen: bool) {
        let k = self.next;
        // A CTRL can come before isend: what was noted of it stays.
        let ctrl = self.knows_ctrl(k);
        let slot = &mut self.records[Self::slot(k)];
        *slot = Record {
            k,
            live: true,
            addr,
            len,
            region,
            ctrl,
            chosen,
            ..Record::NOTHING
        };
        self.next += 1;
        self.noted = self.noted.max(self.next);
    }

    /// What is known of message `next`, before it is made.
    pub(crate) fn before(&self) -> Record {
        self.records[Self::slot(self.next)]
    }

    /// Message `next - 1` was not made after all: what was known `before`.
    pub(crate) fn retract(&mut self, before: Record) {
        self.next -= 1;
        self.records[Self::slot(self.next)] = before;
    }

    /// Whether the CTRL of message `k`, which is not made yet, was given to the engine.
    pub(crate) fn knows_ctrl(&self, k: u64) -> bool {
        let slot = self.records.get(Self::slot(k));
        slot.is_some_and(|slot| slot.ctrl && slot.k == k && !slot.live)
    }

    /// A CTRL for message `k` was given to the engine of the sender.
    pub(crate) fn note_ctrl(&mut self, k: u64) {
        if let Some(slot) = self
            .records
            .get_mut(Self::slot(k))
            .filter(|slot| slot.k <= k)
        {
            if slot.k != k || (!slot.live && k >= self.next) {
                *slot = Record {
                    k,
                    ..Record::NOTHING
                };
            }
            slot.ctrl = true;
            self.noted = self.noted.max(k + 1);
        }
    }

    /// The newest message made here that has this sequence number.
    pub(crate) fn by_seq(&self, seq: u64, bits: u32) -> Option<u64> {
        let newest = self.next.checked_sub(1)?;
        newest.checked_sub(newest.wrapping_sub(seq) & ((1 << bits) - 1))
    }

    /// The newest request was not made after all.
    pub(crate) fn take_back(&mut self) {
        if let Some(k) = self.next.checked_sub(1) {
            self.records[Self::slot(k)] = Record::NOTHING;
            self.next = k;
        }
    }

    fn clear(&mut self) {
        let used = usize::try_from(self.noted.min(RING)).unwrap_or(0);
        self.records[..used].fill(Record::NOTHING);
        (self.next, self.noted) = (0, 0);
    }
}

/// One link in its present life.
#[derive(Debug)]
pub(crate) struct Truth {
    /// Counts lives, from 1; 0: not begun.
    pub(crate) life: u32,
    pub(crate) plan: Plan,
    /// Wire ids of the two communicators, as CONN and `CONN_RESP` said.
    pub(crate) ids: [Option<u32>; 2],
    /// Which sides called close.
    pub(crate) closed: [bool; 2],
    /// `CONN_RESP` was given to the sender's engine.
    pub(crate) answered: bool,
    /// A fault was made that may fail this link.
    pub(crate) tainted: bool,
    /// Records of the sender and of the receiver.
    pub(crate) rings: [Ring; 2],
    /// One-sided operations of both sides; their numbers have nothing to do with those of messages.
    pub(crate) one_sided: [Ring; 2],
    /// Sends that are not eager and not done.
    pub(crate) writes_out: u64,
    /// CTRLs posted, and CLOSEs.
    pub(crate) ctrls: u64,
    pub(crate) closes: u32,
}

/// All links, and who has which id.
#[derive(Debug)]
pub(crate) struct Ledger {
    pub(crate) links: Vec<Truth>,
    ids: Vec<Vec<Option<IdUse>>>,
    taken: Vec<u64>,
    regions: Vec<Vec<u16>>,
    /// Bits of a sequence number.
    pub(crate) seq_bits: u32,
    /// Messages in flight that a communicator may have.
    pub(crate) inflight_max: u64,
}

/// No link: regions that belong to the host.
const NO_LINK: u16 = u16::MAX;

impl Ledger {
    pub(crate) fn new(hosts: usize, seq_bits: u32, inflight_max: u64) -> Self {
        let (ids, regions) = (vec![Vec::new(); hosts], vec![Vec::new(); hosts]);
        Self {
            links: Vec::new(),
            ids,
            taken: vec![0; hosts],
            regions,
            seq_bits,
            inflight_max,
        }
    }

    /// Adds a link.
    pub(crate) fn add_link(&mut self) {
        self.links.push(Truth {
            life: 0,
            plan: Plan::default(),
            ids: [None; 2],
            closed: [false; 2],
            answered: false,
            tainted: false,
            rings: [Ring::new(), Ring::new()],
            one_sided: [Ring::new(), Ring::new()],
            writes_out: 0,
            ctrls: 0,
            closes: 0,
        });
    }

    pub(crate) fn link(&self, link: u16) -> &Truth {
        &self.links[usize::from(link)]
    }

    pub(crate) fn link_mut(&mut self, link: u16) -> &mut Truth {
        &mut self.links[usize::from(link)]
    }

    /// Starts the next life of a link.
    pub(crate) fn begin_life(&mut self, link: u16, plan: Plan) {
        let truth = self.link_mut(link);
        truth.life += 1;
        truth.plan = plan;
        truth.ids = [None; 2];
        truth.closed = [false; 2];
        truth.answered = false;
        truth.tainted = false;
        truth.writes_out = 0;
        truth.ctrls = 0;
        truth.closes = 0;
        truth.rings.iter_mut().for_each(Ring::clear);
        truth.one_sided.iter_mut().for_each(Ring::clear);
    }

    /// Notes that `id` of `host` belongs to a link from now on.
    ///
    /// # Errors
    /// Words, when the id is out of range or belongs to something alive.
    pub(crate) fn take_id(
        &mut self,
        host: u8,
        id: u32,
        link: u16,
        role: Role,
    ) -> Result<(), String> {
        if id >= IDS - 1 {
            return Err(format!(
                "host {host} uses id {id:#x}, which is reserved or out of range"
            ));
        }
        let life = self.link(link).life;
        let at = usize::try_from(id).unwrap_or(0);
        let before = self.ids[usize::from(host)].get(at).copied().flatten();
        if let Some(before) = before.filter(|&before| self.is_open(before, id)) {
            return Err(format!(
                "host {host} gives id {id} away, which {before:?} still has"
            ));
        }
        self.taken[usize::from(host)] += 1;
        let taken = self.taken[usize::from(host)];
        let table = &mut self.ids[usize::from(host)];
        if at >= table.len() {
            table.resize(at + 1, None);
        }
        table[at] = Some(IdUse {
            link,
            life,
            role,
            taken,
        });
        let side = match role {
            Role::Listener => return Ok(()),
            Role::Send => SEND,
            Role::Recv => RECV,
        };
        self.link_mut(link).ids[side] = Some(id);
        Ok(())
    }

    fn is_open(&self, usage: IdUse, id: u32) -> bool {
        let truth = self.link(usage.link);
        let side = match usage.role {
            Role::Send => SEND,
            Role::Recv => RECV,
            Role::Listener => return false,
        };
        truth.life == usage.life && !truth.closed[side] && truth.ids[side] == Some(id)
    }

    /// The link whose communicator or listener has this id of `host`, with the life it had then.
    pub(crate) fn by_id(&self, host: u8, id: u32, role: Role) -> Option<(u16, u32)> {
        let at = usize::try_from(id).ok()?;
        let usage = self.ids[usize::from(host)].get(at).copied().flatten()?;
        (usage.role == role).then_some((usage.link, usage.life))
    }

    /// Whether this id of `host` is another's, or nobody's any more, so that a message for `role`
    /// with it finds nobody. False for an id that may be in use without the ledger knowing.
    pub(crate) fn is_foreign(&self, host: u8, id: u32, role: Role) -> bool {
        if id >= UNUSED_IDS {
            return true;
        }
        let at = usize::try_from(id).unwrap_or(usize::MAX);
        self.ids[usize::from(host)]
            .get(at)
            .copied()
            .flatten()
            .is_some_and(|usage| {
                let over = self.link(usage.link).life != usage.life;
                let rests = self.taken[usize::from(host)] - usage.taken < RESTS;
                (over && rests) || (!over && usage.role != role)
            })
    }

    /// Ids that were ever seen of `host`, plus one.
    pub(crate) fn id_bound(&self, host: u8) -> u32 {
        u32::try_from(self.ids[usize::from(host)].len()).unwrap_or(IDS)
    }

    /// Notes whose a new region is; the regions of a host come in order.
    pub(crate) fn add_region(&mut self, host: u8, link: Option<u16>) {
        self.regions[usize::from(host)].push(link.unwrap_or(NO_LINK));
    }

    /// Regions that a host has ever had.
    pub(crate) fn region_count(&self, host: u8) -> u32 {
        u32::try_from(self.regions[usize::from(host)].len()).unwrap_or(u32::MAX)
    }

    /// The link that a region of `host` belongs to.
    pub(crate) fn by_region(&self, host: u8, region: RegionId) -> Option<u16> {
        let at = usize::try_from(region.0).ok()?;
        self.regions[usize::from(host)]
            .get(at)
            .copied()
            .filter(|&link| link != NO_LINK)
    }

    /// The record that an operation's completion belongs to, if its life is the present one.
    pub(crate) fn record_mut(&mut self, owner: Owner) -> Option<&mut Record> {
        let truth = self.links.get_mut(usize::from(owner.link))?;
        if truth.life != owner.life {
            return None;
        }
        match owner.part {
            Part::Data => truth.rings[SEND].get_mut(owner.k),
            Part::Ctrl | Part::Copy => truth.rings[RECV].get_mut(owner.k),
            Part::Put => truth.one_sided[SEND].get_mut(owner.k),
            Part::Get => truth.one_sided[RECV].get_mut(owner.k),
            Part::Setup | Part::Flush => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_numbers_name_the_newest_message() {
        let mut ring = Ring::new();
        assert_eq!(ring.by_seq(0, 10), None);
        for _ in 0..1030 {
            ring.admit(0, 0, RegionId(0), false);
        }
        assert_eq!(ring.by_seq(5, 10), Some(1029));
        assert_eq!(ring.by_seq(6, 10), Some(6));
        assert!(ring.get(6).is_none(), "long forgotten");
        assert!(ring.get(1029).is_some());
    }

    #[test]
    fn a_ctrl_before_isend_is_remembered_once() {
        let mut ring = Ring::new();
        ring.note_ctrl(0);
        ring.admit(0, 0, RegionId(0), false);
        assert!(ring.get(0).unwrap().ctrl);
        ring.admit(0, 0, RegionId(0), false);
        assert!(!ring.get(1).unwrap().ctrl);
        ring.note_ctrl(1);
        assert!(ring.get(1).unwrap().ctrl);
    }

    #[test]
    fn an_id_in_use_cannot_be_given_away() {
        let mut ledger = Ledger::new(1, 10, 128);
        ledger.add_link();
        ledger.add_link();
        ledger.begin_life(0, Plan::default());
        ledger.begin_life(1, Plan::default());
        assert_eq!(ledger.take_id(0, 5, 0, Role::Send), Ok(()));
        assert!(ledger.take_id(0, 5, 1, Role::Recv).is_err());
        assert_eq!(ledger.by_id(0, 5, Role::Send), Some((0, 1)));
        assert_eq!(ledger.by_id(0, 5, Role::Recv), None);
        ledger.link_mut(0).closed[SEND] = true;
        assert_eq!(ledger.take_id(0, 5, 1, Role::Recv), Ok(()));
        assert!(
            ledger.take_id(0, 0x3_FFFF, 1, Role::Recv).is_err(),
            "the sentinel of 2c.1"
        );
    }
}
