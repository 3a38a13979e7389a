//! `rescore completions`: a script with which a shell completes commands, options and values.
//!
//! The script is made from the command line itself, so it knows every option. This is the only file that names
//! `clap_complete`. It writes nothing: `commands` prints the script.

use clap::builder::PossibleValue;
use clap::{Args, Command};
use clap_complete::{Shell, generate};

// A doc comment would be taken for the help of the command.
#[derive(Debug, Args)]
pub(super) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// What stands below the options of `rescore completions`.
pub(super) const EXAMPLES: &str = "\
Examples:
  For bash, in the next shell:
    rescore completions bash > ~/.local/share/bash-completion/completions/rescore
  For zsh, in a directory of `$fpath`:
    rescore completions zsh > ~/.zfunc/_rescore
  For fish:
    rescore completions fish > ~/.config/fish/completions/rescore.fish";

/// Prints the names of the profiles in the usual settings file. The generated scripts cannot know them.
const PROFILES: &str = r#"
_rescore_profiles() {
    sed -n 's/^\[profile\.\([A-Za-z0-9_-]*\)\].*/\1/p' \
        "${RESCORE_CONFIG:-${XDG_CONFIG_HOME:-$HOME/.config}/rescore/config.toml}" 2>/dev/null
}
"#;

/// Bash asks this function instead of the generated one.
const BASH: &str = r#"
_rescore_with_profiles() {
    if [[ "$3" == --profile ]]; then
        COMPREPLY=( $(compgen -W "$(_rescore_profiles)" -- "$2") )
    else
        _rescore "$@"
    fi
}

complete -F _rescore_with_profiles -o bashdefault -o default rescore
"#;

/// What the generated script for zsh does after `--profile`, and what it should do.
const ZSH: (&str, &str) = (
    ":NAME:' \\\n",
    ":NAME:{compadd -- $(_rescore_profiles)}' \\\n",
);

/// Fish has no `${…:-…}`.
const FISH: &str = r#"
function __rescore_profiles
    set -l base $HOME/.config
    test -n "$XDG_CONFIG_HOME"; and set base $XDG_CONFIG_HOME
    set -l file $base/rescore/config.toml
    test -n "$RESCORE_CONFIG"; and set file $RESCORE_CONFIG
    sed -n 's/^\[profile\.\([A-Za-z0-9_-]*\)\].*/\1/p' $file 2>/dev/null
end
"#;

impl CompletionsArgs {
    /// The script for this command line.
    pub(super) fn script(&self, mut command: Command) -> String {
        let name = command.get_name().to_owned();
        let mut script = Vec::new();
        generate(self.shell, &mut command, name, &mut script);
        let script = String::from_utf8_lossy(&script).into_owned();
        match self.shell {
            Shell::Bash => script + PROFILES + BASH,
            Shell::Fish => script + FISH + &more_for_fish(&command),
            Shell::Zsh => with_profiles_of_zsh(&script),
            // These have no place where a function of ours could be added.
            _ => script,
        }
    }
}

/// The script for zsh, which may load it as the body of a function: ours must be in front.
fn with_profiles_of_zsh(script: &str) -> String {
    let (generated, ours) = ZSH;
    let lines = script.split_inclusive('\n').map(|line| {
        if line.starts_with("'--profile=") {
            line.replace(generated, ours)
        } else {
            line.to_owned()
        }
    });
    let script: String = lines.collect();
    match script.split_once('\n') {
        Some((first, rest)) => format!("{first}\n{PROFILES}{rest}"),
        None => script,
    }
}

/// Completions that are added to those of the generated script: profiles, and the values of arguments without a name.
fn more_for_fish(command: &Command) -> String {
    let mut lines = String::new();
    for subcommand in command.get_subcommands() {
        let after = format!("__fish_rescore_using_subcommand {}", subcommand.get_name());
        for argument in subcommand.get_arguments() {
            let values = argument.get_possible_values();
            if argument.get_long() == Some("profile") {
                lines += &format!(
                    "complete -c rescore -n \"{after}\" -l profile -x -a \"(__rescore_profiles)\"\n"
                );
            } else if argument.is_positional() && !values.is_empty() {
                let values: Vec<_> = values.iter().map(PossibleValue::get_name).collect();
                lines += &format!(
                    "complete -c rescore -n \"{after}\" -f -a \"{}\"\n",
                    values.join(" ")
                );
            }
        }
    }
    lines
}
