//! What Linux keeps of each rule.

use crate::promise::{Keeping, Rule};

/// What is so without the broker.
const NO_BROKER: &str = "without the broker commands remove and rename nothing in a workspace";

/// How bubblewrap, Landlock, seccomp and, with `guarded`, the removal broker keep a rule.
pub fn keeps(rule: Rule, guarded: bool) -> Keeping {
    let whole = |by| Keeping::Whole { by };
    let brokered = |by, because| match guarded {
        true => Keeping::Whole { by },
        false => Keeping::NotHere { because },
    };
    match rule {
        Rule::NothingIsLost if guarded => whole(
            "the broker is the only writer in a workspace; Landlock gives commands no right to write there",
        ),
        Rule::NothingIsLost => Keeping::Partly {
            by: "Landlock gives no right to remove or rename",
            not: "what a command overwrites is not kept",
        },
        Rule::WorkCleansUp => brokered("the broker's ledger of what the session made", NO_BROKER),
        Rule::VersionControl => brokered(
            "the broker knows the system's git, its index and its objects",
            "a repository's files are read-only to commands",
        ),
        Rule::BuildFolders => brokered(
            "the broker, by the rules of the commit that was there when the session began",
            NO_BROKER,
        ),
        Rule::Modes => {
            whole("`strict` by the broker or Landlock, `read-only` by mounts and Landlock")
        }
        Rule::WritesAreListed => whole("a read-only root, mounts for what is listed, Landlock"),
        Rule::SecretsAreHidden => whole(
            "empty mounts over what is hidden; inherited descriptors are closed; no copy of it is made",
        ),
        Rule::HandsOutOfReach => {
            whole("mounts over its home and its sockets, a process namespace of the command's own")
        }
        Rule::NotByTheCheck => whole("what counts is the system call, whatever text led to it"),
        Rule::Network => whole(
            "a network namespace: of the command's own (`off`), of the session's (`loopback`), the same with a \
             filtering proxy outside (`hosts`)",
        ),
        Rule::NoWayRound => whole(
            "seccomp (no namespaces, mounts, tracing, keyrings, io_uring, set-user-ID bits), no capabilities, \
             `no_new_privs`",
        ),
    }
}
