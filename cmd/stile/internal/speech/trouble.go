package speech

import (
	"io"
	"os"
	"strings"

	"github.com/stilelock/stile/cmd/stile/internal/tty"
)

// troubleshooting is the page that explains errors by their words.
const troubleshooting = "https://github.com/stilelock/stile/blob/main/docs/help/troubleshooting.md"

// A trouble is the words of an error, with … for the varying parts, and the section of the page that explains them.
type trouble struct{ words, section string }

// troubles are in the order of the search: an error that names its cause often has words for the effect too.
var troubles = []trouble{
	{"does not speak TLS", "tls-on-one-side-only"},
	{"requires TLS", "tls-on-one-side-only"},
	{"speaks TLS: use", "tls-on-one-side-only"},
	{"cannot be read", "a-file-cannot-be-read"},
	{"there is such a file, and", "a-file-cannot-be-read"},
	{"asks for a password", "a-user-or-a-right-is-missing"},
	{"with this password", "a-user-or-a-right-is-missing"},
	{"does not let … do this", "a-user-or-a-right-is-missing"},
	{"lacks a right", "a-user-or-a-right-is-missing"},
	{"unknown store", "the-url-is-refused"},
	{"unknown parameter", "the-url-is-refused"},
	{"needs a package that this program does not import", "the-url-is-refused"},
	{"the text is not shown: it may hold a password", "the-url-is-refused"},
	{"which grant of", "which-grant-is-meant"},
	{"it cannot have the lock too", "a-lock-inside-a-lock"},
	{"the context already holds this lock", "a-lock-inside-a-lock"},
	{"the place where the lock is kept holds a value that is not stile's", "something-else-is-in-the-locks-place"},
	{"the name is in use with other permits", "the-name-is-in-use-with-other-permits"},
	{"say the same --of as the others do", "the-name-is-in-use-with-other-permits"},
	{"has no memory left for a new claim", "no-memory-is-left-for-a-lock"},
	{"the store cannot do this", "the-store-cannot-do-this"},
	{"the lease is lost: it could not be renewed in time", "the-lock-was-lost-while-the-work-ran"},
	{"the lease is lost: the store no longer has it", "the-lock-was-lost-while-the-work-ran"},
	{"the lock was lost while CMD ran", "the-lock-was-lost-while-the-work-ran"},
	{"the lock was lost before CMD began", "the-lock-was-lost-while-the-work-ran"},
	{"the store's answer never came; a claim may stand until", "the-answer-never-came"},
	{"held by … for … more unless renewed", "somebody-else-holds-the-lock"},
	{"the store did not answer for as long as --wait allows", "the-store-does-not-answer"},
	{"the store cannot be reached", "the-store-does-not-answer"},
	{"cannot be reached", "the-store-does-not-answer"},
}

// in reports whether an error says these words.
func (t *trouble) in(text string) bool {
	for part := range strings.SplitSeq(t.words, "…") {
		_, rest, found := strings.Cut(text, part)
		if !found {
			return false
		}
		text = rest
	}
	return true
}

// explained returns the address of an error's explanation; "" if there is none.
func explained(text string) string {
	for _, t := range troubles {
		if t.in(text) {
			return troubleshooting + "#" + t.section
		}
	}
	return ""
}

// Refer shows a person the address of an error's explanation: on a terminal, or with --verbose. Scripts get one line for an
// error.
func Refer(w io.Writer, text string) {
	if page := explained(text); page != "" && (Current >= Verbose || Current == Normal && tty.Is(os.Stderr)) {
		Say(w, "see %s", page)
	}
}
