//! Turning a policy into a confined child process.
