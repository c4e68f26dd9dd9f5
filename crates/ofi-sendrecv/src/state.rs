//! The states of communicators and requests, as two tables. Nothing else changes a state.
//!
//! `states.txt` beside this file is what the tables print; a test compares the two.

/// State of a communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommState {
    /// Listener: its connect message is awaited, or here.
    Listening,
    /// Listener: gave its communicator.
    Accepted,
    /// Send: the connect message is queued or at the provider.
    Connecting,
    /// Messages flow.
    Up,
    /// Closed by the caller; ends once the provider gave back all operations.
    Ending,
    /// Its slot is free.
    Gone,
}

/// What happens to a communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommInput {
    /// Listener: the caller got the receive communicator.
    ChildTaken,
    /// Send: the connect message is out: its completion, or to oneself its acceptance.
    ConnectSent,
    /// The caller closes.
    Close,
    /// Nothing is queued or at the provider.
    Quiet,
}

impl CommState {
    /// The table. `None`: this cannot happen in this state, and changes nothing.
    pub(crate) const fn next(self, input: CommInput) -> Option<Self> {
        Some(match (self, input) {
            (Self::Listening, CommInput::ChildTaken) => Self::Accepted,
            (Self::Connecting, CommInput::ConnectSent) => Self::Up,
            (Self::Ending, CommInput::Quiet) => Self::Gone,
            (Self::Ending | Self::Gone, _) => return None,
            (_, CommInput::Close) => Self::Ending,
            _ => return None,
        })
    }

    /// As people read it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Listening => "listening",
            Self::Accepted => "accepted",
            Self::Connecting => "connecting",
            Self::Up => "up",
            Self::Ending => "ending",
            Self::Gone => "gone",
        }
    }

    /// Closed by the caller: its key is stale.
    pub(crate) const fn is_closed(self) -> bool {
        matches!(self, Self::Ending | Self::Gone)
    }
}

/// State of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReqState {
    /// Its completion is missing.
    Live,
    /// Done; `test` has not taken it.
    Done,
    /// Receive: its message did not fit; `test` has not said so.
    Short,
    /// Nobody will test it: it stays until the provider gave its operation back.
    Orphan,
    /// Its slot is free.
    Gone,
}

/// What happens to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReqInput {
    /// Its operation completed.
    Complete,
    /// Its message did not fit, and what fits is not known to be in place.
    Truncate,
    /// `test` takes it, or reports that its message did not fit.
    Take,
    /// `test` reports the failure of its communicator.
    Report,
    /// Its communicator was closed.
    Close,
    /// Nothing of it is queued or at the provider.
    Quiet,
}

impl ReqState {
    /// The table. `None`: this cannot happen in this state, and changes nothing.
    pub(crate) const fn next(self, input: ReqInput) -> Option<Self> {
        Some(match (self, input) {
            (Self::Live, ReqInput::Complete) => Self::Done,
            (Self::Live, ReqInput::Truncate) => Self::Short,
            (Self::Done | Self::Short, ReqInput::Take) | (Self::Orphan, ReqInput::Quiet) => {
                Self::Gone
            }
            (Self::Live, ReqInput::Report)
            | (Self::Live | Self::Done | Self::Short, ReqInput::Close) => Self::Orphan,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::String;

    const COMM_STATES: [CommState; 6] = [
        CommState::Listening,
        CommState::Accepted,
        CommState::Connecting,
        CommState::Up,
        CommState::Ending,
        CommState::Gone,
    ];
    const COMM_INPUTS: [CommInput; 4] = [
        CommInput::ChildTaken,
        CommInput::ConnectSent,
        CommInput::Close,
        CommInput::Quiet,
    ];
    const REQ_STATES: [ReqState; 5] = [
        ReqState::Live,
        ReqState::Done,
        ReqState::Short,
        ReqState::Orphan,
        ReqState::Gone,
    ];
    const REQ_INPUTS: [ReqInput; 6] = [
        ReqInput::Complete,
        ReqInput::Truncate,
        ReqInput::Take,
        ReqInput::Report,
        ReqInput::Close,
        ReqInput::Quiet,
    ];

    fn print() -> String {
        let mut out = String::from("communicator\n");
        for state in COMM_STATES {
            for input in COMM_INPUTS {
                if let Some(next) = state.next(input) {
                    out += &format!("  {state:?} --{input:?}--> {next:?}\n");
                }
            }
        }
        out += "request\n";
        for state in REQ_STATES {
            for input in REQ_INPUTS {
                if let Some(next) = state.next(input) {
                    out += &format!("  {state:?} --{input:?}--> {next:?}\n");
                }
            }
        }
        out
    }

    #[test]
    fn the_tables_are_the_committed_ones() {
        assert_eq!(
            print(),
            include_str!("states.txt"),
            "update states.txt if this is meant"
        );
    }

    #[test]
    fn every_communicator_can_end() {
        for state in COMM_STATES {
            let closed = state.next(CommInput::Close).unwrap_or(state);
            let gone = closed.next(CommInput::Quiet).unwrap_or(closed);
            assert_eq!(gone, CommState::Gone, "from {state:?}");
        }
    }

    #[test]
    fn gone_is_final() {
        let inputs = COMM_INPUTS.iter();
        assert!(
            inputs
                .into_iter()
                .all(|&i| CommState::Gone.next(i).is_none())
        );
        assert!(REQ_INPUTS.iter().all(|&i| ReqState::Gone.next(i).is_none()));
    }
}
