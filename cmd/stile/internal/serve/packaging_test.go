package serve

import (
	"encoding/json"
	"errors"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/stilelock/stile/cmd/stile/internal/store"
	"github.com/stilelock/stile/internal/exit"
)

// text returns a file of the repository.
func text(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile("../../../../" + path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// found returns what an expression's group finds in a text.
func found(t *testing.T, in, expression string) string {
	t.Helper()
	m := regexp.MustCompile(expression).FindStringSubmatch(in)
	if m == nil {
		t.Fatalf("%s is not there", expression)
	}
	return m[1]
}

// The unit, the image and the pods of the page start a service with flags that it has, and that let it serve other machines.
// The page shows the lines of the unit.
func TestPackaging(t *testing.T) {
	page := text(t, "docs/serve/operating.md")
	unit, image := text(t, "packaging/stile-serve.service"), text(t, "packaging/Containerfile")

	var pod []string
	if err := json.Unmarshal([]byte(found(t, page, `command: (\["/stile", .*\])`)), &pod); err != nil || pod[1] != "serve" {
		t.Fatalf("a pod runs %q, %v", pod, err)
	}
	docker := found(t, strings.ReplaceAll(page, "\\\n", ""), `docker run .* stile serve (.*)`)
	for of, args := range map[string][]string{
		"the unit": strings.Fields(found(t, unit, `(?m)^#     FLAGS=(.*)$`)), "the image": strings.Fields(docker), "the pod": pod[2:],
	} {
		f, its := &front{}, pflag.NewFlagSet("", pflag.ContinueOnError)
		f.flags(its)
		its.ParseErrorsAllowlist.UnknownFlags = true
		if err := errors.Join(New(&store.Store{}).ParseFlags(args), its.Parse(args), f.check()); err != nil || its.NArg() > 0 {
			t.Errorf("%s has %q: %v", of, args, err)
		}
	}

	comment := found(t, unit, `(?m)^# /etc/stile/serve, mode 0600.*\n#\n((?:#     .*\n)+)`)
	if lines := strings.ReplaceAll(comment, "#     ", ""); !strings.Contains(page, "```\n# /etc/stile/serve, mode 0600\n"+lines+"```\n") {
		t.Errorf("the page does not show\n%s", lines)
	}
	for _, command := range []string{found(t, unit, `(useradd .*)\.\n`), found(t, unit, `(systemctl .*)\. `)} {
		if !strings.Contains(page, "\n"+command+"\n") {
			t.Errorf("the page does not show %s", command)
		}
	}
	if program := found(t, unit, `(?m)^ExecStart=(\S+) serve \$FLAGS$`); !strings.Contains(text(t, "packaging/build.sh"), `"$deb`+program+`"`) {
		t.Errorf("the package does not install %s", program)
	}
	if program := found(t, image, `(?m)^ENTRYPOINT \["(.*)"\]$`); program != pod[0] || !strings.Contains(image, "\nCOPY stile "+program+"\n") {
		t.Errorf("the image runs %s, and the pod %s; want the file that the image copies", program, pod[0])
	}

	if within, err := time.ParseDuration(found(t, unit, `(?m)^TimeoutStopSec=(.*)$`) + "s"); err != nil || within <= endWithin+closeWithin {
		t.Errorf("the unit gives a service %v to end, %v; it takes up to %v", within, err, endWithin+closeWithin)
	}
	if status := found(t, unit, `(?m)^RestartPreventExitStatus=(.*)$`); status != strconv.Itoa(exit.BadUsage) {
		t.Errorf("the unit does not restart after %s; want %d, a wrong flag", status, exit.BadUsage)
	}
}
