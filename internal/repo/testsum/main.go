// Testsum runs go test with the arguments that it is given, shows a line for each package and all that the failed tests
// said, and ends with a line that counts the tests:
//
//	412 passed, 0 failed
//
// A test with subtests is counted by its subtests. A test that skipped itself has failed: what it needs was missing. So
// has a package that cannot be built or that breaks outside its tests. The status is 0 if tests ran and none failed.
//
// With -o the line is also written to a file.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
)

func main() {
	out := flag.String("o", "", "write the closing line to this file too")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: testsum [-o file] -- [arguments of go test]")
		flag.PrintDefaults()
	}
	flag.Parse()
	s, err := test(flag.Args(), os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testsum:", err)
	}
	line := s.String() + "\n"
	if *out != "" {
		if err := os.WriteFile(*out, []byte(line), 0o644); err != nil {
			fmt.Fprintln(os.Stderr, "testsum:", err)
			os.Exit(1)
		}
	}
	fmt.Print("\n", line)
	if err != nil || s.failed > 0 || s.passed == 0 {
		os.Exit(1)
	}
}

// test runs go test and returns what became of the tests. The error is that of go test if it failed otherwise than by
// a failed test.
func test(args []string, w io.Writer) (summary, error) {
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = os.Stderr
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return summary{}, err
	}
	if err := cmd.Start(); err != nil {
		return summary{}, err
	}
	s, err := read(pipe, w)
	if werr := cmd.Wait(); err == nil && s.failed == 0 {
		err = werr
	}
	return s, err
}
