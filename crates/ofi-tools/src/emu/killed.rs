//! Which processes the plan of an emulated EFA killed: from outside that is SIGKILL, as many things are.

use std::path::Path;

use efa_emu::plan::Plan;
use efa_emu::stats::Snapshot;

/// Why SIGKILL ended a process of this run, if that was the plan's doing (`EFA_EMU_PLAN`): for certain where
/// there are statistics, else as what may be. `has` is the environment of that process.
pub(crate) fn by_plan(pid: u32, has: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let set = |name: &str| has(name).filter(|text| !text.is_empty());
    let stats = set("EFA_EMU_STATS");
    said(
        pid,
        stats.as_deref().map(Path::new),
        set("EFA_EMU_PLAN").as_deref(),
    )
}

fn said(pid: u32, stats: Option<&Path>, plan: Option<&str>) -> Option<String> {
    let plan = plan.map(|text| match text.strip_prefix('@') {
        Some(path) => std::fs::read_to_string(path).unwrap_or_default(),
        None => text.to_owned(),
    });
    let plan = Plan::parse(&plan.unwrap_or_default()).unwrap_or_default();
    let deaths = |struck: &dyn Fn(usize) -> bool| -> Vec<String> {
        let counted = plan.counted();
        let deadly =
            counted.filter(|(i, rule)| rule.split(' ').next() == Some("die") && struck(*i));
        deadly.map(|(_, rule)| format!("\"{rule}\"")).collect()
    };
    let seen = stats.and_then(|dir| Snapshot::read_each(dir).ok());
    let own = (seen.into_iter().flatten()).find_map(|one| one.ok().filter(|one| one.pid == pid));
    let Some(own) = own else {
        let rules = deaths(&|_| true);
        let maybe = format!(
            "\n  likely: the plan of its emulated EFA, which has {}",
            rules.join(", ")
        );
        return (!rules.is_empty()).then_some(maybe);
    };
    let rules = deaths(&|i| own.rules.get(i).is_some_and(|n| *n > 0)).join(", ");
    own.was_killed
        .then(|| format!("\n  the plan of its emulated EFA did that: {rules}"))
}

#[cfg(test)]
mod tests {
    use super::said;
    use efa_emu::stats::Stats;

    #[test]
    fn who_was_killed_by_which_rule() {
        let plan = Some("lose at=1; die process=1 at=9; die process=2 at=9");
        assert_eq!(said(1, None, Some("lose at=1; reorder window=4")), None);
        assert_eq!(said(1, None, None), None);
        let maybe = said(1, None, plan).unwrap();
        assert!(
            maybe.contains("likely: ") && maybe.contains("\"die process=2 at=9\""),
            "{maybe}"
        );
        let dir = tempfile::tempdir().unwrap();
        let stats = Stats::create(Some(dir.path()), "1", 7, (1, 3)).unwrap();
        stats.strike(0);
        let own = std::process::id();
        assert_eq!(
            said(own, Some(dir.path()), plan),
            None,
            "it was something else"
        );
        stats.strike(1);
        stats.mark_killed().unwrap();
        let told = said(own, Some(dir.path()), plan).unwrap();
        assert_eq!(
            told,
            "\n  the plan of its emulated EFA did that: \"die process=1 at=9\""
        );
    }
}
