package main

import (
	_ "embed"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/stilelock/stile/internal/exit"
)

// bashCompletion needs only bash. Cobra's own script calls functions of the package bash-completion, which most servers and
// containers lack.
//
//go:embed completion.bash
var bashCompletion string

const completionLong = `stile completion prints a script by which a shell completes commands, flags and the
names that are in use. For this shell, and for all to come:

  bash   eval "$(stile completion bash)"
         stile completion bash > ~/.local/share/bash-completion/completions/stile
  zsh    source <(stile completion zsh)
         stile completion zsh > "${fpath[1]}/_stile"
  fish   stile completion fish | source
         stile completion fish > ~/.config/fish/completions/stile.fish

The script for bash works without the package bash-completion, but it is this
package that loads the file above: without it put the first line into ~/.bashrc.`

func newCompletion(root *cobra.Command) *cobra.Command {
	scripts := map[string]func(io.Writer) error{
		"bash": func(w io.Writer) error { _, err := io.WriteString(w, bashCompletion); return err },
		"zsh":  root.GenZshCompletion,
		"fish": func(w io.Writer) error { return root.GenFishCompletion(w, true) },
	}
	shells := []string{"bash", "zsh", "fish"}
	return &cobra.Command{
		Use: "completion SHELL", Short: "Print a script that completes for bash, zsh or fish", Long: completionLong,
		Example: `  eval "$(stile completion bash)"`, ValidArgs: shells, DisableFlagsInUseLine: true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || scripts[args[0]] == nil {
				return exit.Usage("stile completion needs one SHELL: bash, zsh or fish")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := scripts[args[0]](cmd.OutOrStdout()); err != nil {
				return fmt.Errorf("completion: %w", err)
			}
			return nil
		},
	}
}
