//! What a rule can start with: one row each. Which words it takes is for [`super::parse`] to say.

/// A kind of rule.
#[derive(Clone, Copy, Debug)]
pub(super) struct Verb {
    pub(super) name: &'static str,
    /// What it does, with what is taken where a word is left out.
    pub(super) what: &'static str,
    /// A rule that is right.
    pub(super) example: &'static str,
}

const fn verb(name: &'static str, example: &'static str, what: &'static str) -> Verb {
    Verb {
        name,
        what,
        example,
    }
}

/// All of them.
pub(super) const VERBS: [Verb; 19] = [
    verb(
        "reorder",
        "reorder window=16 for=20us",
        "up to so many later posts overtake one, which waits so long for them (20us unless said); 0: all go in order",
    ),
    verb(
        "delay",
        "delay on=write,send uniform=5us..200us nic=0",
        "operations go later, by one of fixed=, uniform= and exp= (with max=, 20 times the mean unless said); delays add up",
    ),
    verb(
        "speed",
        "speed nic=3 rate=10Gbps",
        "a slow NIC; the last rule counts",
    ),
    verb(
        "eagain",
        "eagain on=write chance=1% burst=8",
        "the post is refused so many times with EAGAIN, then taken",
    ),
    verb(
        "refuse",
        "refuse on=send at=7 errno=EINVAL",
        "the call that posts it fails",
    ),
    verb(
        "error",
        "error on=imm at=100 code=bad-rkey lands=yes",
        "it completes with an error; with lands=yes its bytes arrive all the same",
    ),
    verb(
        "lose",
        "lose on=send at=3",
        "it neither arrives nor completes",
    ),
    verb(
        "duplicate",
        "duplicate on=imm chance=0.1% side=remote",
        "it completes twice, for who posted it unless said",
    ),
    verb(
        "late",
        "late on=write chance=1% by=10ms side=local",
        "its completion shows so much later, that of who posted it unless said",
    ),
    verb(
        "rnr",
        "rnr chance=5% tries=4",
        "sends find the receiver not ready so many times",
    ),
    verb(
        "nic-lost",
        "nic-lost nic=2 at=1000 code=flushed refuse=EIO",
        "from that post on the NIC is gone: what is pending ends with the code (flushed unless said), posts are refused (EINVAL unless said)",
    ),
    verb(
        "die",
        "die process=1 at=1000",
        "the process kills itself at that post",
    ),
    verb(
        "mute",
        "mute process=1 at=1000",
        "the NIC hangs from that post on: nothing leaves it, nobody gets an answer; others go on until such a post of theirs",
    ),
    verb(
        "stop-polling",
        "stop-polling process=1 at=1000 polls=100000",
        "after that post so many reads of queues of the NIC (all unless said) find nothing and make no progress; others go on",
    ),
    verb(
        "empty",
        "empty chance=30%",
        "reads of the queues find nothing, entries stay",
    ),
    verb(
        "readerr",
        "readerr busy=3",
        "the read of an error entry says EAGAIN so many times first",
    ),
    verb(
        "revoke",
        "revoke at=3 after=20",
        "the key of a region is bad after so many uses by peers",
    ),
    verb(
        "mr-limit",
        "mr-limit count=100 bytes=64M pages=4096 errno=ENOMEM",
        "registrations beyond one or more of count=, bytes= and pages= of a NIC fail (ENOMEM unless said)",
    ),
    verb(
        "mr-error",
        "mr-error at=5 errno=EINVAL",
        "the registration fails",
    ),
];

/// Their names, as a list in a sentence.
pub(super) fn names() -> String {
    VERBS.map(|verb| verb.name).join(", ")
}
