//! The times of the contenders of a group, and how they compare.

/// Least, median and largest of some numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) min: f64,
    pub(crate) median: f64,
    pub(crate) max: f64,
}

impl Spread {
    /// Of at least one number.
    pub(crate) fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let median = sorted[sorted.len() / 2];
        Some(Self { min, median, max })
    }
}

/// The median, over all rounds, of a contender's time over ours of the same round.
pub(crate) fn ratio(theirs: &[f64], ours: &[f64]) -> Option<f64> {
    let each = theirs.iter().zip(ours).filter(|(_, ours)| **ours > 0.0);
    let ratios: Vec<f64> = each.map(|(theirs, ours)| theirs / ours).collect();
    Some(Spread::of(&ratios)?.median)
}

#[cfg(test)]
mod tests {
    use super::{Spread, ratio};

    #[test]
    fn the_middle_of_unsorted_numbers() {
        let spread = Spread::of(&[5.0, 1.0, 3.0]).unwrap();
        assert_eq!((spread.min, spread.median, spread.max), (1.0, 3.0, 5.0));
        assert_eq!(Spread::of(&[]), None);
    }

    #[test]
    fn a_slow_round_slows_both_and_leaves_the_ratio() {
        assert_eq!(ratio(&[20.0, 200.0, 20.0], &[10.0, 100.0, 10.0]), Some(2.0));
        assert_eq!(ratio(&[1.0], &[0.0]), None);
    }
}
