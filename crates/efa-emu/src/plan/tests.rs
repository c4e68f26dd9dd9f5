//! The whole of a plan: what is read, and what comes of it.

use proptest::prelude::*;

use super::{
    Code, NicPlan, OpFault, OpKind, Plan, PollVerdict, PostVerdict, RegVerdict, Registered,
    Registration, Schedule,
};

fn nic(text: &str) -> NicPlan {
    Plan::parse(text).unwrap().nic(1, "0", 0)
}

/// Posts until it is taken; how often EAGAIN came first, and the schedule.
fn post(nic: &mut NicPlan, kind: OpKind) -> (u64, Schedule) {
    for again in 0..10_000 {
        match nic.on_post(kind, 64) {
            PostVerdict::Accept(schedule) => return (again, schedule),
            PostVerdict::Again => {}
            other => panic!("{other:?}"),
        }
    }
    panic!("EAGAIN without end")
}

fn faults(nic: &mut NicPlan, kind: OpKind, count: usize) -> Vec<OpFault> {
    (0..count).map(|_| post(nic, kind).1.fault).collect()
}

#[test]
fn without_a_script_operations_only_overtake() {
    let mut plain = Plan::default().nic(3, "x", 1);
    let holds: Vec<u32> = (0..1000)
        .map(|_| {
            let (again, schedule) = post(&mut plain, OpKind::Write);
            let only_held = Schedule {
                hold: schedule.hold,
                ..Schedule::default()
            };
            assert_eq!((again, schedule), (0, only_held));
            schedule.hold
        })
        .collect();
    for hold in 0..=8 {
        assert!(holds.contains(&hold), "{hold} of 8");
    }
    assert!(holds.iter().all(|hold| *hold <= 8));
    assert_eq!(plain.on_poll(), PollVerdict::Go);
    assert!(!plain.on_readerr() && !plain.is_plain());
    assert!(nic("reorder window=0").is_plain());
    let mut waiting = nic("reorder window=4; reorder window=2 for=1ms");
    for _ in 0..50 {
        let schedule = post(&mut waiting, OpKind::Send).1;
        let waits = if schedule.hold > 0 { 1_000_000 } else { 0 };
        assert!(
            schedule.hold <= 2 && schedule.hold_ns == waits,
            "{schedule:?}"
        );
    }
}

#[test]
fn a_rule_about_one_nic_leaves_the_others_their_order() {
    let plan = Plan::parse("reorder window=0 nic=1").unwrap();
    assert!(plan.nic(1, "0", 1).is_plain());
    assert!(!plan.nic(1, "0", 0).is_plain());
}

/// The third of each NIC, or of all of them.
#[test]
fn a_rule_counts_for_each_nic_or_for_the_process() {
    let lost = |text: &str| {
        let mut nics = Plan::parse(text).unwrap().nics(1, "0", 3);
        let posts = (0..12).filter(|i| {
            let fault = post(&mut nics[i % 3], OpKind::Write).1.fault;
            fault == OpFault::Lost
        });
        posts.collect::<Vec<_>>()
    };
    assert_eq!(lost("lose at=3"), [6, 7, 8]);
    assert_eq!(lost("lose at=3 per=nic"), [6, 7, 8]);
    assert_eq!(lost("lose at=3 per=process"), [2]);
    assert_eq!(lost("lose at=3 nic=0,2 per=process"), [3]);
    assert_eq!(lost("lose every=5 per=process"), [4, 9]);
    // What is drawn is the same, whichever NIC it is on.
    let draws = |turns: [usize; 6]| {
        let plan = Plan::parse("delay uniform=0ns..1s from=1 per=process").unwrap();
        let mut nics = plan.nics(3, "0", 2);
        turns.map(|nic| post(&mut nics[nic], OpKind::Read).1.delay_ns)
    };
    assert_eq!(draws([0, 0, 0, 1, 1, 1]), draws([1, 0, 1, 0, 1, 0]));
}

/// What is refused keeps its place in the count, and others go on meanwhile.
#[test]
fn a_burst_of_a_process_is_of_one_operation() {
    let plan = Plan::parse("eagain at=2 burst=3 per=process; die at=5 per=process").unwrap();
    let mut nics = plan.nics(1, "0", 2);
    let again =
        |nics: &mut [NicPlan], nic: usize| nics[nic].on_post(OpKind::Send, 1) == PostVerdict::Again;
    assert!(!again(&mut nics, 0));
    assert!(again(&mut nics, 1) && again(&mut nics, 1));
    assert!(!again(&mut nics, 0) && !again(&mut nics, 0));
    assert!(again(&mut nics, 1) && !again(&mut nics, 1));
    assert_eq!(nics[0].on_post(OpKind::Send, 1), PostVerdict::Kill);
}

#[test]
fn a_burst_is_as_long_as_it_says_whatever_else_is_tried() {
    let mut nic = nic("eagain on=write every=3 burst=5");
    let agains: Vec<u64> = (0..6).map(|_| post(&mut nic, OpKind::Write).0).collect();
    assert_eq!(agains, [0, 0, 5, 0, 0, 5]);
    assert_eq!(post(&mut nic, OpKind::Send).0, 0, "only writes");
    let mut forever = self::nic("eagain at=2 burst=forever");
    post(&mut forever, OpKind::Send);
    assert!((0..1000).all(|_| forever.on_post(OpKind::Send, 1) == PostVerdict::Again));
}

#[test]
fn faults_strike_the_operations_they_name() {
    let mut nic = nic("error on=imm at=2 code=bad-rkey lands=yes; lose on=send at=1; die at=9");
    let error = OpFault::Error {
        code: Code::BAD_RKEY,
        executed: true,
    };
    assert_eq!(faults(&mut nic, OpKind::Write, 3), [OpFault::None; 3]);
    assert_eq!(
        faults(&mut nic, OpKind::WriteData, 3),
        [OpFault::None, error, OpFault::None]
    );
    assert_eq!(faults(&mut nic, OpKind::Recv, 2), [OpFault::None; 2]);
    assert_eq!(
        faults(&mut nic, OpKind::Send, 2),
        [OpFault::Lost, OpFault::None],
    );
    let ninth = nic.on_post(OpKind::Send, 64);
    assert_eq!(ninth, PostVerdict::Kill, "the ninth that is no receive");
}

#[test]
fn what_is_too_small_is_not_counted() {
    let mut nic = nic("lose at=2 size=65..; lose at=3 size=..64");
    assert!((0..2).all(|_| post(&mut nic, OpKind::Write).1.fault == OpFault::None));
    assert_eq!(post(&mut nic, OpKind::Write).1.fault, OpFault::Lost);
    let large = |nic: &mut NicPlan| nic.on_post(OpKind::Write, 65);
    let fault = |verdict| match verdict {
        PostVerdict::Accept(schedule) => schedule.fault,
        other => panic!("{other:?}"),
    };
    assert_eq!(fault(large(&mut nic)), OpFault::None);
    assert_eq!(fault(large(&mut nic)), OpFault::Lost);
}

#[test]
fn the_first_fault_counts_but_death_always() {
    let mut nic = nic("lose at=1,2; duplicate at=1 side=remote; die at=2");
    assert_eq!(faults(&mut nic, OpKind::Write, 1), [OpFault::Lost]);
    assert_eq!(nic.on_post(OpKind::Write, 1), PostVerdict::Kill);
    // Whatever else is said of that post, or was said of those before.
    for other in [
        "refuse at=1 on=any errno=EIO",
        "refuse at=2 on=any errno=EIO",
        "eagain at=2 on=any burst=forever",
        "error on=any code=22/7",
        "nic-lost on=any at=1",
        "nic-lost on=any at=2",
        "mute on=any at=1",
        "delay fixed=1s",
        "stop-polling on=any at=1",
    ] {
        for kind in [OpKind::Recv, OpKind::Send, OpKind::Read, OpKind::WriteData] {
            let mut nic = self::nic(&format!("{other}; die on=any at=2"));
            assert_ne!(nic.on_post(kind, 1), PostVerdict::Kill, "{other}");
            assert_eq!(nic.on_post(kind, 1), PostVerdict::Kill, "{other}");
            assert!(nic.struck().contains(&1), "{other}");
        }
    }
    // A post that is refused with EAGAIN is the same one when it is tried again.
    let mut nic = self::nic("eagain at=1 burst=2; die at=2");
    assert_eq!(post(&mut nic, OpKind::Send).0, 2);
    assert_eq!(nic.on_post(OpKind::Send, 1), PostVerdict::Kill);
}

#[test]
fn delays_add_up_and_stay_in_their_bounds() {
    let mut nic = nic(
        "delay fixed=1us on=send; delay uniform=5us..10us on=send,write; delay exp=1us max=2us on=read; late by=3us; late by=4us side=remote on=read",
    );
    for _ in 0..500 {
        let send = post(&mut nic, OpKind::Send).1;
        assert!((6_000..=11_000).contains(&send.delay_ns), "{send:?}");
        assert_eq!((send.late_ns, send.late_remote_ns), (3_000, 0));
        let read = post(&mut nic, OpKind::Read).1;
        assert!(read.delay_ns <= 2_000);
        assert_eq!(read.late_remote_ns, 4_000);
        assert_eq!(post(&mut nic, OpKind::Recv).1, Schedule::default());
    }
}

#[test]
fn receivers_that_are_not_ready_are_for_sends() {
    let mut nic = nic("rnr every=2 tries=4; rnr at=4 tries=forever");
    let tries: Vec<u32> = (0..4).map(|_| post(&mut nic, OpKind::Send).1.rnr).collect();
    assert_eq!(tries, [0, 4, 0, u32::MAX]);
    assert_eq!(post(&mut nic, OpKind::Write).1.rnr, 0);
}

#[test]
fn a_lost_nic_refuses_from_the_post_after() {
    let mut nic = nic("nic-lost at=3 code=aborted refuse=EIO");
    post(&mut nic, OpKind::Send);
    post(&mut nic, OpKind::Write);
    assert!(!nic.is_lost());
    post(&mut nic, OpKind::Read);
    assert!(nic.is_lost());
    assert_eq!(nic.loss(), Code::ABORTED);
    for kind in [OpKind::Send, OpKind::Recv] {
        assert_eq!(nic.on_post(kind, 1), PostVerdict::Fail { errno: 5 });
    }
}

#[test]
fn a_refused_call_is_counted_once() {
    let mut nic = nic("refuse on=send at=2 errno=EINVAL");
    post(&mut nic, OpKind::Send);
    assert_eq!(
        nic.on_post(OpKind::Send, 1),
        PostVerdict::Fail { errno: 22 }
    );
    post(&mut nic, OpKind::Send);
}

#[test]
fn who_stops_polling_sees_nothing_for_so_many_polls() {
    let mut nic = nic("stop-polling at=2 polls=3; empty at=2");
    post(&mut nic, OpKind::Send);
    assert_eq!(nic.on_poll(), PollVerdict::Go);
    post(&mut nic, OpKind::Send);
    let polls: Vec<PollVerdict> = (0..5).map(|_| nic.on_poll()).collect();
    let (go, empty, stalled) = (PollVerdict::Go, PollVerdict::Empty, PollVerdict::Stalled);
    assert_eq!(polls, [stalled, stalled, stalled, empty, go]);
    let mut endless = self::nic("stop-polling at=1");
    post(&mut endless, OpKind::Send);
    assert!((0..1000).all(|_| endless.on_poll() == stalled));
}

#[test]
fn who_is_mute_stays_mute() {
    let mut nic = nic("mute at=1");
    assert!(!nic.is_mute());
    post(&mut nic, OpKind::Send);
    assert!(nic.is_mute());
    assert_eq!(nic.on_poll(), PollVerdict::Empty);
}

#[test]
fn error_entries_can_be_busy_first() {
    let mut nic = nic("readerr busy=2 from=2");
    let says: Vec<bool> = (0..7).map(|_| nic.on_readerr()).collect();
    assert_eq!(says, [false, true, true, false, true, true, false]);
}

#[test]
fn registrations_are_limited_and_revoked() {
    let mut nic =
        nic("mr-limit count=2 bytes=8K pages=3; mr-error at=2 errno=EINVAL; revoke at=4 after=7");
    let ask = |len, pages| Registration { len, pages };
    let now = |count, bytes, pages| Registered {
        count,
        bytes,
        pages,
    };
    let accept = |revoke_after| RegVerdict::Accept { revoke_after };
    assert_eq!(nic.on_register(ask(8192, 3), now(0, 0, 0)), accept(None));
    let refused = RegVerdict::Fail { errno: 22 };
    assert_eq!(nic.on_register(ask(1, 1), now(0, 0, 0)), refused);
    let full = RegVerdict::Fail { errno: 12 };
    assert_eq!(nic.on_register(ask(1, 1), now(2, 2, 2)), full, "count");
    assert_eq!(nic.on_register(ask(1, 1), now(1, 1, 1)), accept(Some(7)));
    assert_eq!(nic.on_register(ask(1, 1), now(1, 8192, 1)), full, "bytes");
    assert_eq!(nic.on_register(ask(1, 1), now(1, 1, 3)), full, "pages");
}

#[test]
fn registrations_are_told_apart_by_size() {
    let mut nic = nic("revoke size=100.. after=0; mr-error size=..9 errno=EIO");
    let mut register = |len| {
        let ask = Registration { len, pages: 1 };
        nic.on_register(ask, Registered::default())
    };
    assert_eq!(register(9), RegVerdict::Fail { errno: 5 });
    let accept = |revoke_after| RegVerdict::Accept { revoke_after };
    assert_eq!(register(99), accept(None));
    assert_eq!(register(100), accept(Some(0)));
}

#[test]
fn complaints_name_line_word_and_way_out() {
    for (text, line, word, says) in [
        ("reorder window=1\nbogus at=1", 2, "bogus", "nic-lost"),
        ("\n\nlose at", 3, "at", "name=value"),
        ("lose at=0", 1, "at=0", "from 1 on"),
        ("# all\nlose at=1; lose at=x", 2, "at=x", "5,9,100"),
        ("lose at=1 at=2", 1, "at=2", "twice"),
        (
            "lose window=3",
            1,
            "window=3",
            "nic, process, on, at, every",
        ),
        ("error at=1", 1, "error", "needs code="),
        ("error code=bad", 1, "code=bad", "22/7"),
        ("lose on=recv", 1, "on=recv", "send,write"),
        ("duplicate on=any", 1, "on=any", "send,write"),
        ("delay on=send", 1, "delay", "uniform=5us..200us"),
        ("delay fixed=1us exp=2us", 1, "delay", "one distribution"),
        ("delay fixed=1us max=2us", 1, "delay", "one distribution"),
        ("mr-limit errno=EIO", 1, "mr-limit", "limits nothing"),
        ("mr-error errno=EAGAIN", 1, "errno=EAGAIN", "EINVAL"),
        ("nic-lost nic=1", 1, "nic-lost", "needs at="),
        ("die at=1,2", 1, "at=1,2", "a number"),
        ("lose process=,", 1, "process=,", "ranks"),
        ("speed rate=0bps", 1, "rate=0bps", "10Gbps"),
        ("rnr tries=1 size=1..", 1, "size=1..", "not for rnr"),
        ("lose per=host", 1, "per=host", "process"),
        ("lose size=9..1", 1, "size=9..1", "4K..1M"),
        ("lose chance=101%", 1, "chance=101%", "0.5%"),
    ] {
        let error = Plan::parse(text).unwrap_err();
        assert_eq!((error.line, error.word.as_str()), (line, word), "{text}");
        assert!(error.to_string().contains(says), "{error}");
    }
}

fn rule() -> impl Strategy<Value = String> {
    let when = prop_oneof![
        Just(String::new()),
        (1u64..50).prop_map(|n| format!("at={n},{}", n + 3)),
        (1u64..9, 1u64..40).prop_map(|(every, from)| format!("every={every} from={from}")),
        (0u32..100).prop_map(|c| format!("chance={c}.25%")),
    ];
    let verb = prop_oneof![
        (0u32..40).prop_map(|w| (format!("reorder window={w}"), false)),
        (1u64..9).prop_map(|b| (format!("eagain on=write burst={b}"), true)),
        Just(("lose on=write".to_owned(), true)),
        Just(("error on=any code=22/7".to_owned(), true)),
        Just(("duplicate side=remote".to_owned(), true)),
        (1u64..99).prop_map(|t| (format!("delay exp={t}us"), true)),
        (1u64..99).prop_map(|t| (format!("delay uniform={t}us..{}us", t + 9), true)),
        Just(("rnr tries=2".to_owned(), true)),
    ];
    (verb, when, 0usize..3).prop_map(|((verb, takes_when), when, nic)| {
        let when = if takes_when { when } else { String::new() };
        let scope = ["", "nic=0-1", "nic=1"][nic];
        format!("{verb} {when} {scope}")
    })
}

/// What the NIC says to so many posts, each repeated until it is taken.
fn story(nic: &mut NicPlan, kinds: &[OpKind]) -> Vec<(u64, Schedule)> {
    kinds.iter().map(|kind| post(nic, *kind)).collect()
}

fn kinds() -> impl Strategy<Value = Vec<OpKind>> {
    let kind = prop_oneof![
        Just(OpKind::Send),
        Just(OpKind::Recv),
        Just(OpKind::Read),
        Just(OpKind::Write),
        Just(OpKind::WriteData),
    ];
    proptest::collection::vec(kind, 1..80)
}

proptest! {
    #[test]
    fn the_same_seed_gives_the_same_schedule(
        rules in proptest::collection::vec(rule(), 0..6), kinds in kinds(), seed: u64,
    ) {
        let plan = Plan::parse(&rules.join(";")).unwrap();
        let again = Plan::parse(&plan.to_string()).unwrap();
        prop_assert_eq!(&plan, &again, "what is shown can be read");
        let once = story(&mut plan.nic(seed, "3", 1), &kinds);
        prop_assert_eq!(story(&mut again.nic(seed, "3", 1), &kinds), once);
    }

    /// What the same seed says is told by one number, which timing does not change.
    #[test]
    fn the_digest_is_that_of_what_was_said(
        rules in proptest::collection::vec(rule(), 0..6), mut kinds in kinds(), seed: u64,
    ) {
        // What goes away for good leaves nothing to count.
        let stays = |rule: &&String| !rule.starts_with("nic-lost") && !rule.contains("forever");
        let mut rules: Vec<&str> = rules.iter().filter(stays).map(String::as_str).collect();
        // Something is said of each.
        rules.push("eagain on=any chance=1% burst=1");
        let plan = Plan::parse(&rules.join("\n")).unwrap();
        let digest = |kinds: &[OpKind], seed: u64| {
            let mut nic = plan.nic(seed, "0", 0);
            nic.keep_digest();
            drop(story(&mut nic, kinds));
            nic.digest()
        };
        let once = digest(&kinds, seed);
        kinds.reverse();
        prop_assert_eq!(digest(&kinds, seed), once);
        prop_assert!(kinds.is_empty() || digest(&kinds, seed ^ 1) != once);
    }

    /// Whether another NIC is used in between, and how often a post is tried, changes nothing.
    #[test]
    fn streams_do_not_depend_on_taking_turns(
        rules in proptest::collection::vec(rule(), 0..6), kinds in kinds(), seed: u64,
    ) {
        let plan = Plan::parse(&rules.join("\n")).unwrap();
        let alone = [0, 1].map(|nic| story(&mut plan.nic(seed, "0", nic), &kinds));
        let mut nics = [0, 1].map(|nic| plan.nic(seed, "0", nic));
        for (i, kind) in kinds.iter().enumerate() {
            for (nic, alone) in nics.iter_mut().zip(&alone) {
                prop_assert_eq!(&post(nic, *kind), &alone[i]);
            }
        }
    }

    #[test]
    fn seeds_names_and_nics_make_a_difference(seed: u64) {
        let plan = Plan::parse("delay uniform=0ns..1s").unwrap();
        let kinds = [OpKind::Write; 8];
        let base = story(&mut plan.nic(seed, "0", 0), &kinds);
        prop_assert_ne!(&story(&mut plan.nic(seed ^ 1, "0", 0), &kinds), &base);
        prop_assert_ne!(&story(&mut plan.nic(seed, "1", 0), &kinds), &base);
        prop_assert_ne!(&story(&mut plan.nic(seed, "0", 1), &kinds), &base);
    }

    #[test]
    fn no_text_makes_it_panic(text in "(reorder|delay|eagain|error|lose|mr-limit|[a-z =;#%,.0-9\n-]){0,12}") {
        if let Err(error) = Plan::parse(&text) {
            prop_assert!(error.line <= text.lines().count());
            prop_assert!(text.contains(error.word.split('=').next().unwrap()));
        }
    }
}

/// Numbers are those of the rules as they are written: the one about order that nobody wrote has none.
#[test]
fn what_struck_is_known_by_its_number() {
    let text = "lose at=2; eagain at=3 burst=2; speed rate=1Gbps; lose on=read; empty at=2; mr-limit count=0";
    let mut nic = Plan::parse(text).unwrap().nic(1, "0", 0);
    let mut struck = vec![0; 6];
    let mut count = |nic: &NicPlan| nic.struck().iter().for_each(|rule| struck[*rule] += 1);
    for _ in 0..5 {
        nic.on_post(OpKind::Send, 1);
        count(&nic);
        nic.on_poll();
        count(&nic);
    }
    nic.on_register(Registration { len: 1, pages: 1 }, Registered::default());
    count(&nic);
    assert_eq!(struck, [1, 2, 3, 0, 1, 1]);
    let plan = Plan::parse("reorder window=0; lose; reorder window=3 nic=1").unwrap();
    let counted = plan.counted().collect::<Vec<_>>();
    assert_eq!(counted, [(1, "lose"), (2, "reorder window=3 nic=1")]);
}
