//! The language as a text for people: rows of [`VERBS`], with the words that the parser asks for when it
//! reads the example of each.

use super::DEFAULT_WINDOW;
use super::parse::{self, Asked};
use super::verb::VERBS;

/// Words that so many kinds of rules take are told once, behind them.
const SHARED: usize = 3;

/// Every rule that a plan can have, with its words and an example; what `ofi emu --help-rules` prints.
///
/// ```
/// let text = efa_emu_fi::plan::manual();
/// assert!(text.contains("lose on=send at=3"));
/// ```
#[must_use]
pub fn manual() -> String {
    let of_each = VERBS.map(|verb| (verb, parse::asked(verb.example)));
    let mut all: Vec<(&Asked, Vec<&str>)> = Vec::new();
    for (verb, words) in &of_each {
        for word in words {
            let same = |(it, _): &&mut (&Asked, _)| (it.name, &it.help) == (word.name, &word.help);
            match all.iter_mut().find(same) {
                Some((_, verbs)) => verbs.push(verb.name),
                None => all.push((word, vec![verb.name])),
            }
        }
    }
    all.retain(|(_, verbs)| verbs.len() >= SHARED);
    let is_shared = |word: &Asked| {
        let mut shared = all.iter();
        shared.any(|(it, _)| (it.name, &it.help) == (word.name, &word.help))
    };
    let mut text = String::from(
        "One rule a line, or several with ; between them; # starts a comment. The words behind the\n\
         first one come in any order, those in [] may be left out.\n",
    );
    for (verb, words) in &of_each {
        let shown = |word: &Asked| match word.is_required {
            true => format!(" {}=", word.name),
            false => format!(" [{}=]", word.name),
        };
        let (shared, own): (Vec<_>, Vec<_>) = words.iter().partition(|word| is_shared(word));
        let words_shown: String = own.iter().chain(&shared).map(|word| shown(word)).collect();
        text.push_str(&format!("\n{}{words_shown}\n  {}\n", verb.name, verb.what));
        own.iter().for_each(|word| text.push_str(&told(word)));
        text.push_str(&format!("  example: {}\n", verb.example));
    }
    text.push_str("\nWords of several rules:\n\n");
    for (word, verbs) in &all {
        text.push_str(&told(word));
        let of = match verbs.len() == VERBS.len() {
            true => "every rule".to_owned(),
            false => verbs.join(", "),
        };
        text.push_str(&format!("            of {of}\n"));
    }
    text.push_str(&format!("\n{}\n", notes()));
    text
}

/// How the rules work together.
fn notes() -> String {
    format!(
        "at= (ordinals from 1), every=, from=, to= and chance= say which operations a rule strikes: all that\n\
         are given have to hold, none means each. What can never hold is an error, and so is a NIC that there is\n\
         not. on=write covers writes with data (imm) too; recv is the posting of a receive. Without on= a rule is\n\
         about all but receives.\n\n\
         A rule counts by itself, for each NIC of each process: the operations it is about, of readerr the error\n\
         entries, of empty the reads, of revoke and mr-error the registrations. So at=3 strikes the third one of\n\
         each NIC, as many times as there are NICs. With per=process it counts for each process, whichever of\n\
         its NICs (or of those in nic=) they are on: at=3 strikes once. The same seed is the same run then if the\n\
         program takes its NICs in the same order. A post refused with EAGAIN counts once, when it is first tried. Of several faults that strike one operation the first in the plan counts, but\n\
         die always.\n\n\
         Without a rule reorder, operations overtake within a window of {DEFAULT_WINDOW}, and none waits for it."
    )
}

fn told(word: &Asked) -> String {
    format!("  {:<9} {}\n", format!("{}=", word.name), word.help)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;
    use crate::plan::rule::Ops;

    /// The documentation of the module has the same text.
    #[test]
    fn the_file_is_what_the_tables_say() {
        let is = include_str!("rules.txt");
        let again =
            "cargo run -p ofi-tools -- emu --help-rules > crates/efa-emu/src/plan/rules.txt";
        assert!(is == manual(), "it is to be made again: {again}");
    }

    #[test]
    fn every_example_is_a_rule_of_its_verb() {
        for verb in VERBS {
            let plan = Plan::parse(verb.example).expect("a rule");
            assert_eq!(plan.to_string(), verb.example);
            assert!(verb.example.starts_with(verb.name));
            let words = parse::asked(verb.example);
            assert!(words.iter().any(|word| word.name == "process"));
            assert!(!words.iter().any(|word| word.help.is_empty()));
        }
        let kinds = Ops::NAMED.map(|(name, _)| name);
        let text = manual();
        let line = text.lines().find(|line| line.contains("on=       any"));
        assert!(
            kinds
                .iter()
                .all(|kind| line.expect("a line").contains(kind))
        );
    }

    /// What is said to be needed is, and what may be left out may.
    #[test]
    fn words_are_needed_or_not_as_it_says() {
        for verb in VERBS {
            let words = verb.example.split(' ').skip(1);
            for word in words {
                let name = word.split('=').next().expect("a name");
                let asked = parse::asked(verb.example);
                let asked = asked.iter().find(|asked| asked.name == name);
                let is_required = asked.expect("one that is asked for").is_required;
                let without = verb.example.replace(&format!(" {word}"), "");
                // Of several that limit or delay, one has to be there.
                let is_one_of_some = verb.name == "delay" && name == "uniform";
                let fails = Plan::parse(&without).is_err();
                assert_eq!(fails, is_required || is_one_of_some, "{without}");
            }
        }
    }
}
