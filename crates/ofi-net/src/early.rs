//! Whether a receive may complete before its data is here (protocol 2e.10).
//!
//! The caller then looks at the memory itself, so data has to arrive without calls of ours: the provider
//! makes progress on its own. And nothing of a message may need one of our buffers: eager messages are
//! off, on *all* ranks, since a receiver with early completion posts no buffers for them.

use efa_fabric::{Info, Progress};

use crate::config::Config;
use crate::error::{Code, NetError};
use crate::quirks;

/// How data moves on a rail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moves {
    /// What the provider says (`fi_domain(3)`).
    says: Progress,
    /// It has been seen to move data only inside calls, whatever it says.
    in_calls_only: bool,
}

impl Moves {
    pub(crate) fn of(info: &Info) -> Self {
        Self {
            says: info.data_progress(),
            in_calls_only: quirks::moves_in_calls_only(info),
        }
    }
}

/// Whether receives that say they are optional complete early on a device whose rails move data so. Where
/// a provider only says that it moves data by itself, the user has to ask for it.
///
/// # Errors
/// It is asked for (`OFI_NCCL_EARLY_COMPLETION=1`) and cannot be.
pub(crate) fn decide(
    config: &Config,
    rails: impl IntoIterator<Item = Moves>,
) -> Result<bool, NetError> {
    let refused = match (config.early_completion, config.eager_max) {
        (Some(false), _) => return Ok(false),
        (_, Some(eager)) => format!("OFI_NCCL_EAGER_MAX_SIZE is {eager}, and has to be -1"),
        (asked, None) => {
            let mut rails = rails.into_iter();
            let manual = |rail: &Moves| {
                rail.says != Progress::Auto || (asked.is_none() && rail.in_calls_only)
            };
            match rails.find(manual) {
                None => return Ok(true),
                Some(Moves { says, .. }) => {
                    format!("the provider's data progress is {says:?}, and has to be Auto")
                }
            }
        }
    };
    match config.early_completion {
        Some(true) => {
            let what = format!("OFI_NCCL_EARLY_COMPLETION is 1: {refused}");
            Err(NetError::new(Code::EarlyCompletion, what))
        }
        _ => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::Flavour;

    fn answer(
        early: Option<bool>,
        eager: Option<u32>,
        rails: &[Moves],
    ) -> Result<bool, (Code, String)> {
        let config = Config {
            early_completion: early,
            eager_max: eager,
            ..Config::new(Flavour::Neuron)
        };
        decide(&config, rails.iter().copied()).map_err(|e| (e.code(), e.to_string()))
    }

    /// Trap 26: it follows from two settings of the provider and of eager messages, and is said when it
    /// was asked for and cannot be.
    #[test]
    fn it_needs_automatic_progress_and_no_eager_messages() {
        let moves = |says, in_calls_only| Moves {
            says,
            in_calls_only,
        };
        let auto = moves(Progress::Auto, false);
        let manual = moves(Progress::Manual, false);
        let pretends = moves(Progress::Auto, true);
        assert_eq!(answer(None, None, &[auto, auto]), Ok(true));
        assert_eq!(answer(None, None, &[auto, manual]), Ok(false));
        assert_eq!(answer(None, Some(8192), &[auto]), Ok(false));
        assert_eq!(answer(Some(false), None, &[auto]), Ok(false));
        assert_eq!(answer(Some(true), None, &[auto]), Ok(true));
        // What has been seen not to hold is believed only when the user asks for it.
        assert_eq!(answer(None, None, &[auto, pretends]), Ok(false));
        assert_eq!(answer(Some(true), None, &[pretends]), Ok(true));
        for (eager, rail, word) in [
            (Some(0), auto, "OFI_NCCL_EAGER_MAX_SIZE is 0"),
            (None, manual, "Manual"),
        ] {
            let (code, text) = answer(Some(true), eager, &[rail]).unwrap_err();
            assert!(
                code == Code::EarlyCompletion && text.contains(word),
                "{text}"
            );
        }
    }
}
