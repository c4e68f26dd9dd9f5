//! The engine against a host of the BASE generation that is written from protocol.md alone: recycled
//! buffers with rubbish and replayed bytes in them, CTRL over any control rail, eager messages that
//! cross CTRLs, segments cut anyhow over any rails, CLOSE both ways, ids that are reused at once. Nothing
//! arrives in order. Every byte is compared; what that generation cannot bear is a panic.

mod bytes;
mod peer;
mod plan;
mod provider;
mod world;

use plan::Setup;
use proptest::prelude::*;
use world::World;

fn lives(seed: u64, setup: Setup, lives: usize, abrupt: bool) {
    let mut world = World::new(seed, setup);
    for life in 0..lives {
        world.live(abrupt && life % 2 == 1);
    }
}

#[test]
fn thousands_of_messages_both_ways() {
    for seed in 0..5 {
        let setup = Setup::draw(seed, 1500);
        lives(seed, setup, 1, false);
    }
}

#[test]
fn sequence_numbers_wrap_with_a_full_window() {
    for (early, eager) in [(false, 1024), (true, -1)] {
        let setup = Setup {
            window: 128,
            early,
            our_eager: eager,
            their_eager: eager,
            ..Setup::draw(3, 3000)
        };
        lives(9, setup, 1, false);
    }
}

#[test]
fn many_short_lives_reuse_its_ids_at_once() {
    for seed in 100..112 {
        lives(seed, Setup::draw(seed, 20), 12, false);
    }
}

#[test]
fn a_close_in_the_middle_posts_nothing_that_it_cannot_bear() {
    for seed in 200..216 {
        lives(seed, Setup::draw(seed, 60), 6, true);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn any_seed(seed: u64) {
        lives(seed, Setup::draw(seed, 100), 3, seed % 3 == 0);
    }
}
