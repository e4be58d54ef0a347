package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print what this program was built from",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage("stile version takes no arguments")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), versionLine())
			return err
		},
	}
}

// versionLine tells the version, the commit if it is known, and the compiler.
func versionLine() string {
	version, commit, dirty := "unknown", "", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		version = info.Main.Version
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				commit = " " + s.Value[:min(12, len(s.Value))]
			case s.Key == "vcs.modified" && s.Value == "true":
				dirty = " with changes"
			}
		}
	}
	return fmt.Sprintf("stile %s%s%s %s %s/%s", version, commit, dirty, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
