//! The C edge the plugins share: guard, log, parameters from the environment, table types
