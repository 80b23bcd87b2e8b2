//! What is told to the log, where nobody else may be listening.
