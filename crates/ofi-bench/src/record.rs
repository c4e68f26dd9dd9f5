//! Results: as lines for a person, and as a file for `cargo xtask bench`.

use serde_json::{Value, json};

use crate::sample::{Spread, ratio};

/// The times of one contender: nanoseconds of an operation, one a round.
#[derive(Debug)]
pub(crate) struct Times {
    pub(crate) name: String,
    pub(crate) rounds: Vec<f64>,
}

/// A group that has been run; the first contender is ours.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) group: String,
    pub(crate) is_cold: bool,
    pub(crate) contenders: Vec<Times>,
}

/// Something measured that is no time.
#[derive(Debug)]
pub(crate) struct Fact {
    pub(crate) name: String,
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
}

impl Ran {
    /// Each contender: its name, its times, its ratio to ours.
    fn each(&self) -> impl Iterator<Item = (&Times, Spread, Option<f64>)> {
        let ours = self.contenders.first();
        self.contenders.iter().filter_map(move |times| {
            let ratio = ours.and_then(|ours| ratio(&times.rounds, &ours.rounds));
            Some((times, Spread::of(&times.rounds)?, ratio))
        })
    }

    /// A line a contender.
    pub(crate) fn lines(&self) -> Vec<String> {
        let group = &self.group;
        let cold = if self.is_cold { ", cold" } else { "" };
        self.each()
            .map(|(times, spread, ratio)| {
                let Spread { min, median, max } = spread;
                let ratio = ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"));
                let title = format!("{group}{cold}");
                let name = &times.name;
                format!("{title:<44} {name:<28} {min:>11.1} {median:>11.1} {max:>11.1} {ratio:>10}")
            })
            .collect()
    }

    fn json(&self) -> Value {
        let contenders: Vec<Value> = self
            .each()
            .map(|(times, spread, ratio)| {
                json!({
                    "name": times.name,
                    "rounds": times.rounds.len(),
                    "min": spread.min,
                    "median": spread.median,
                    "max": spread.max,
                    "ratio": ratio,
                })
            })
            .collect();
        json!({"group": self.group, "cold": self.is_cold, "contenders": contenders})
    }
}

/// The file of a board.
pub(crate) fn file(board: &str, groups: &[Ran], facts: &[Fact]) -> Value {
    let groups: Vec<Value> = groups.iter().map(Ran::json).collect();
    let fact = |fact: &Fact| json!({"name": fact.name, "value": fact.value, "unit": fact.unit});
    let facts: Vec<Value> = facts.iter().map(fact).collect();
    json!({"board": board, "groups": groups, "facts": facts})
}

#[cfg(test)]
mod tests {
    use super::{Fact, Ran, Times, file};

    #[test]
    fn the_file_has_every_contender_beside_ours() {
        let times = |name: &str, ns: f64| Times {
            name: name.to_owned(),
            rounds: vec![ns; 3],
        };
        let ran = Ran {
            group: "g".to_owned(),
            is_cold: true,
            contenders: vec![times("ours", 2.0), times("theirs", 5.0)],
        };
        let fact = Fact {
            name: "f".to_owned(),
            value: 7.0,
            unit: "B",
        };
        let json = file("b", &[ran], &[fact]);
        assert_eq!(json["groups"][0]["contenders"][1]["ratio"], 2.5);
        assert_eq!(json["groups"][0]["contenders"][0]["ratio"], 1.0);
        assert_eq!(json["groups"][0]["cold"], true);
        assert_eq!(json["facts"][0]["value"], 7.0);
    }
}
