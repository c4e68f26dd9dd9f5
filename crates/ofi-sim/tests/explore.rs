//! Every interleaving of small configurations: each scene of `ofi_sim::explore` is a test.
//!
//! Those that take more than a second run in a release build only; `cargo run --release -p ofi-sim --example
//! explore` runs all of them, with those that take minutes.

use std::collections::BTreeSet;

use ofi_rdma::Tiny;
use ofi_sim::Sabotage;
use ofi_sim::explore::{Effort, Explored, SCENES, Scene, explore};

/// Far more than any scene has.
const STATES_MAX: u64 = 5_000_000;

fn seen(name: &str) -> Explored {
    let named = SCENES.iter().find(|named| named.name == name);
    let named = named.expect("a scene of this name");
    match named.explore(STATES_MAX).expect("a legal configuration") {
        Ok(seen) => seen,
        Err(way) => panic!("{way}"),
    }
}

/// The scenes that are tests here: the function, the scene, and states it has at least.
macro_rules! scenes {
    ($($(#[$only:meta])* $test:ident: $name:literal, $states:literal;)*) => {
        $(
            $(#[$only])*
            #[test]
            fn $test() {
                let seen = seen($name);
                assert!(seen.states >= $states && seen.ends > 0 && !seen.cut_short, "{seen}");
            }
        )*

        /// No scene is forgotten, but for those that take minutes.
        #[test]
        fn every_scene_is_a_test() {
            let tested = BTreeSet::from([$($name),*]);
            let all = SCENES.iter().filter(|named| named.effort < Effort::Minutes);
            assert_eq!(tested, all.map(|named| named.name).collect());
        }
    };
}

scenes! {
    a_message_in_two_segments: "one message in two segments", 170;
    eager_then_segments: "an eager message, then one in segments", 400;
    four_rails: "a message on four rails", 2_000;
    cut_and_empty_messages: "cut and empty messages", 600;
    sequence_numbers_wrap: "sequence numbers wrap", 5_000;
    close_at_any_moment: "close at any moment", 600;
    close_of_an_eager_message: "close at any moment of an eager message", 400;
    close_of_an_eager_message_copied_at_once: "close at any moment of an eager message that the processor copies", 350;
    an_operation_of_an_eager_message_copied_at_once_fails: "an operation of an eager message that the processor copies fails", 700;
    close_said_by_close: "close at any moment, said by CLOSE", 1_200;
    an_operation_fails: "an operation fails", 1_400;
    two_operations_fail: "two operations fail", 2_400;
    an_operation_of_an_eager_message_fails: "an operation of an eager message fails", 1_000;
    failing_while_closing: "an operation fails while sides close, said by CLOSE", 3_500;
    connecting: "connect", 180;
    connecting_with_all_that_may_happen: "connect, close and fail at any moment", 1_500;
    connecting_with_a_repetition: "connect, with a control message that comes twice", 1_000;
    injected_control_messages: "control messages that are injected", 150;
    a_flush: "a flush of every rail", 200;
    a_flush_that_fails: "a flush that fails", 400;
    a_control_message_comes_twice: "a control message comes twice", 1_600;
    optional_receives: "optional receives", 1_000;
    two_messages_on_one_rail: "two messages on one rail", 2_900;
    #[cfg(not(debug_assertions))]
    two_in_flight_the_first_copied_at_once: "two messages in flight, the first eager and copied by the processor", 18_000;
    #[cfg(not(debug_assertions))]
    two_messages_in_segments: "two messages in flight, in segments", 12_000;
    #[cfg(not(debug_assertions))]
    two_messages_the_first_eager: "two messages in flight, the first eager", 23_000;
    #[cfg(not(debug_assertions))]
    two_messages_with_a_repetition: "two messages in flight, a control message comes twice", 50_000;
    #[cfg(not(debug_assertions))]
    three_messages: "three messages, cut and empty", 50_000;
    #[cfg(not(debug_assertions))]
    connecting_with_repetitions: "connect, with two control messages that come twice", 9_000;
    #[cfg(not(debug_assertions))]
    a_busy_lane: "a lane turns busy", 20_000;
    #[cfg(not(debug_assertions))]
    a_busy_lane_while_closing: "a lane turns busy while sides close", 39_000;
    #[cfg(not(debug_assertions))]
    a_busy_lane_while_connecting: "a lane turns busy while connecting", 12_000;
}

/// A network that breaks a promise is noticed, and the way to where it was is told.
#[test]
fn a_broken_promise_is_noticed() {
    let broken = [
        (Sabotage::DropImmediate, "nothing can happen any more"),
        (Sabotage::DoubleImmediate, "nothing hit it"),
        (Sabotage::Misplace, "land at"),
        (Sabotage::DropControl, "nothing can happen any more"),
        (Sabotage::DropCompletion, "nothing can happen any more"),
        (Sabotage::WrongLength, "nothing hit it"),
    ];
    for (sabotage, what) in broken {
        let scene = Scene {
            sabotage,
            ..Scene::PLAIN
        };
        let way = explore::<Tiny>(&scene, STATES_MAX).expect("a legal configuration");
        let way = way.expect_err("noticed");
        assert!(way.what.contains(what), "{sabotage:?}: {way}");
        assert!(way.moves.len() > 5, "{sabotage:?}: {way}");
    }
}

/// A bound on states is a bound.
#[test]
fn an_exploration_that_is_cut_short_says_so() {
    let cut = explore::<Tiny>(&Scene::PLAIN, 50).expect("a legal configuration");
    let cut = cut.expect("nothing is wrong");
    assert!(cut.cut_short && cut.states == 50, "{cut}");
    assert!(cut.to_string().ends_with("CUT SHORT"), "{cut}");
}
