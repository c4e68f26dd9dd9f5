//! The rules, by what they are about.

mod access;
mod attributes;
mod counts;
mod devices;
mod ends;
mod entries;
mod faults;
mod halts;
mod lengths;
mod messages;
mod options;
mod order;
mod queues;
mod threads;
mod unexpected;

use crate::side::Actor;

/// A rule, by its name.
pub(crate) type Rule = (&'static str, fn(&Actor<'_>));

macro_rules! rules {
    ($($module:ident: $($name:ident)*;)*) => {
        &[$($((stringify!($name), $module::$name)),*),*]
    };
}

/// Those that hold in every case.
pub(crate) const ALL: &[Rule] = rules! {
    attributes: what_the_entry_says what_the_nic_says hints_that_do_not_fit
        hints_choose_the_fabric names_and_vectors;
    entries: entries_that_were_not_given hints_with_holes;
    counts: as_many_as_said no_more_than_asked only_what_was_asked;
    access: written_with_immediate written_in_silence read_back nothing_at_all
        bad_remote_keys bad_local_keys gone_behind_its_region no_regions strangers scattered large
        to_itself;
    devices: reached_by_nics_alone;
    messages: received not_ready too_long_for_the_receive too_long_for_the_device
        injected_within_limits pieces_of_a_message lengths_without_end cancelled;
    lengths: lengths_of_one_piece lengths_among_others;
    unexpected: kept_or_announced none_waits_for_another kept_and_too_long kept_within_bounds delivered
        lost_with_its_endpoint;
    order: overtaken_but_complete doorbells;
    queues: full_at_its_depth bounded bounded_as_one one_place_for_both_ends completions_on_demand errors_have_words
        what_is_refused;
    options: what_can_be_set what_can_be_switched;
    ends: flushed nobody_any_more deregistered_means_untouched closed_in_order;
    threads: all_at_once;
};

/// Those that need a case of their own.
pub(crate) const EXTRA: &[Rule] = rules! {
    counts: one_of_each moved_by_a_peer;
    devices: without_some;
    ends: dead_peer dies_in_the_middle;
    faults: doubled doubled_error revoked_after_uses dies_at_the_post all_ends_with_the_nic
        late_errors given_back one_of_several nothing_kept_by_a_hanging_nic;
    halts: becomes_another_program stopped_anywhere stopped_under_way stopped_before;
    order: a_fixed_program completed_before_it_shows;
    options: options_by_generation solicited_immediates without_device_rdma;
    unexpected: lost_with_its_process lost_when_it_has_its_receive;
};
