//! Multi-rail stripe schedules on the stack, without division by run-time values
