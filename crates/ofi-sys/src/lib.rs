//! Raw libfabric: types, constants, run-time loading, inline dispatch through the operation tables
