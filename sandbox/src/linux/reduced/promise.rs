//! What is kept of each rule without namespaces.

use crate::promise::{Keeping, Rule};

/// How Landlock, seccomp and the broker keep a rule by themselves. Without a broker nothing runs.
pub fn keeps(rule: Rule, guarded: bool) -> Keeping {
    if !guarded {
        return Keeping::NotHere {
            because: "without namespaces and without the broker no command runs",
        };
    }
    let partly = |by, not| Keeping::Partly { by, not };
    match rule {
        Rule::SecretsAreHidden => partly(
            "the broker opens every file that is read, and none that is hidden; inherited descriptors are closed",
            "whoever knows the path of a hidden file can tell its size and times, and where it is a link, where it \
             leads; what lies in the machine's own `/tmp` is read like any other file",
        ),
        Rule::HandsOutOfReach => partly(
            "the broker opens nothing in its home, no UNIX socket is made or reached, signals go to processes of \
             the command only",
            "its processes and those of the user can be seen by name",
        ),
        Rule::Network => partly(
            "`off`: seccomp lets no socket of a network be made",
            "`loopback` and `hosts` (commands are refused then), and a loopback interface of the command's own",
        ),
        Rule::NoWayRound => partly(
            "seccomp (besides the whole sandbox's list: no UNIX sockets, no shared memory and queues of System V, \
             no other process's limits and priorities), no capabilities, `no_new_privs`",
            "when the runner and its helper are killed at the same moment, a process may stay; it starts no \
             other, opens nothing and changes nothing in a workspace",
        ),
        Rule::WritesAreListed => Keeping::Whole {
            by: "Landlock gives no right to write at all; the broker writes in what is listed, and sets modes, owners \
                 and times there alone",
        },
        Rule::Modes => Keeping::Whole {
            by: "the broker and Landlock",
        },
        Rule::NothingIsLost
        | Rule::WorkCleansUp
        | Rule::VersionControl
        | Rule::BuildFolders
        | Rule::NotByTheCheck => crate::linux::keeps(rule, true),
    }
}
