// Testsum runs go test with the arguments that it is given, shows a line for each package and all that the failed tests
// said, and ends with a line that counts the tests:
//
//	412 passed, 0 failed
//
// A test with subtests is counted by its subtests. A test that skipped itself has failed: what it needs was missing. So
// has a package that cannot be built or that breaks outside its tests. The status is 0 if tests ran and none failed.
//
// The race detector of Go breaks now and then where two goroutines of a synctest bubble look at timers that have expired
// ([go.dev/issue/78156]): that is no answer of a test. The tests of such a package run again, up to three times in all, and
// a line says so.
//
// With -o the line is also written to a file. A flag of go test has its value in the same argument, as in -p=3: what begins
// with no hyphen is a package.
//
// [go.dev/issue/78156]: https://go.dev/issue/78156
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
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

// tries is how often the tests of a package run where the race detector breaks.
const tries = 3

// test runs go test and returns a summary of the tests. The error is go test's if it failed otherwise than by a
// failed test.
func test(args []string, w io.Writer) (summary, error) {
	sum, again, err := once(args, false, w)
	flags := slices.DeleteFunc(slices.Clone(args), func(arg string) bool { return !strings.HasPrefix(arg, "-") })
	for try := 2; err == nil && len(again) > 0; try++ {
		var got summary
		got, again, err = once(slices.Concat(flags, again), try == tries, w)
		sum.passed += got.passed
		sum.failed += got.failed
	}
	return sum, err
}

// once runs go test once and also returns the packages in whose tests the race detector broke. In the last try these have
// failed.
func once(args []string, last bool, w io.Writer) (sum summary, again []string, err error) {
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = os.Stderr
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return sum, nil, err
	}
	if err := cmd.Start(); err != nil {
		return sum, nil, err
	}
	sum, again, err = read(pipe, last, w)
	if werr := cmd.Wait(); err == nil && sum.failed == 0 && len(again) == 0 {
		err = werr
	}
	return sum, again, err
}
