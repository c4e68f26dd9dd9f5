//! What goes wrong, and when: from one seed and a small script.
