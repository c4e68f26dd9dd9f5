//! Whether a receive may complete before its data is here (protocol 2e.10).
//!
//! The caller then looks at the memory itself, so data has to arrive without calls of ours: the provider
//! makes progress on its own. And nothing of a message may need one of our buffers: eager messages are
//! off, on *all* ranks, since a receiver with early completion posts no buffers for them.

use efa_fabric::Progress;

use crate::config::Config;
use crate::error::{Code, NetError};

/// Whether receives that say they are optional complete early on a device whose rails make progress as
/// `rails` says.
///
/// # Errors
/// It is asked for (`OFI_NCCL_EARLY_COMPLETION=1`) and cannot be.
pub(crate) fn decide(
    config: &Config,
    rails: impl IntoIterator<Item = Progress>,
) -> Result<bool, NetError> {
    let refused = match (config.early_completion, config.eager_max) {
        (Some(false), _) => return Ok(false),
        (_, Some(eager)) => format!("OFI_NCCL_EAGER_MAX_SIZE is {eager}, and has to be -1"),
        (_, None) => match rails.into_iter().find(|rail| *rail != Progress::Auto) {
            None => return Ok(true),
            Some(rail) => format!("the provider's data progress is {rail:?}, and has to be Auto"),
        },
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
        rails: &[Progress],
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
        use Progress::{Auto, Manual};
        assert_eq!(answer(None, None, &[Auto, Auto]), Ok(true));
        assert_eq!(answer(None, None, &[Auto, Manual]), Ok(false));
        assert_eq!(answer(None, Some(8192), &[Auto]), Ok(false));
        assert_eq!(answer(Some(false), None, &[Auto]), Ok(false));
        assert_eq!(answer(Some(true), None, &[Auto]), Ok(true));
        for (eager, rail, word) in [
            (Some(0), Auto, "OFI_NCCL_EAGER_MAX_SIZE is 0"),
            (None, Manual, "Manual"),
        ] {
            let (code, text) = answer(Some(true), eager, &[rail]).unwrap_err();
            assert!(
                code == Code::EarlyCompletion && text.contains(word),
                "{text}"
            );
        }
    }
}
