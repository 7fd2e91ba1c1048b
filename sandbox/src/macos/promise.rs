//! What macOS keeps of each rule.

use crate::promise::{Keeping, Rule};

/// How the profile keeps a rule; with `guarded`, build folders are free.
pub fn keeps(rule: Rule, guarded: bool) -> Keeping {
    let whole = |by| Keeping::Whole { by };
    match rule {
        Rule::NothingIsLost => Keeping::Partly {
            by: "no `file-write-unlink` in a workspace, so no removal and no renaming",
            not: "what a command overwrites is not kept",
        },
        Rule::WorkCleansUp => Keeping::NotHere {
            because: "nobody knows what a command made: it removes and renames nothing in a workspace",
        },
        Rule::VersionControl => Keeping::NotHere {
            because: "a repository's files are read-only to commands",
        },
        Rule::BuildFolders if guarded => Keeping::Partly {
            by: "the profile allows `file-write-unlink` in those that git ignores when the command begins",
            not: "those deep in a workspace or beyond the sixteenth, and new ones that are not directly in a repository",
        },
        Rule::BuildFolders => Keeping::NotHere {
            because: "with `sandbox.broker = false` nothing in a workspace is removed",
        },
        Rule::Modes => whole("the profile; `default` and `strict` differ in build folders alone"),
        Rule::WritesAreListed => Keeping::Partly {
            by: "`file-write*` is denied but for what is listed",
            not: "the machine's own `/private/tmp` can be written (but not in `read-only`)",
        },
        Rule::SecretsAreHidden => {
            whole("no read, write, link or clone of what is hidden, by its real path")
        }
        Rule::HandsOutOfReach => {
            whole("its home is hidden, no connection to its sockets, no signal to other processes")
        }
        Rule::NotByTheCheck => whole("what counts is the operation, whatever text led to it"),
        Rule::Network => Keeping::Partly {
            by: "`off`: no network but UNIX sockets in the folders of the command",
            not: "`loopback` and `hosts` (commands are refused then), and a loopback interface of the command's own",
        },
        Rule::NoWayRound => Keeping::Partly {
            by: "no service that acts in the command's stead (launchd, Apple events, keychain, …), no task \
                 ports of others, no set-user-ID programs",
            not: "arguments and environment of the user's other processes can be read; a process that left \
                  its group outlives the command",
        },
    }
}
