package guard

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/stilelock/stile/driver"
)

// These are the errors that callers branch on, with errors.Is. After each of them the resource is unchanged.
var (
	ErrStale     = errors.New("the token is stale")       // a later holder was here: stop; see StaleError
	ErrNotRaised = errors.New("the token was not raised") // Check without Raise, or the mark was lost: raise, and read again
	ErrNoToken   = errors.New("no token")                 // the token is not positive, as outside a lease and of a joined lock
	ErrInvalid   = errors.New("invalid")                  // a resource's name, an identifier or a token's text cannot be one
)

// A StaleError says that a higher token was raised at a resource before. It is [ErrStale].
type StaleError struct {
	Resource     string
	Token, Newer int64 // the refused token, and the mark
}

// Error names the resource and both tokens.
func (e *StaleError) Error() string {
	return fmt.Sprintf("guard: %q: token %d is stale: %d came before it", e.Resource, e.Token, e.Newer)
}

// Is reports whether the target is ErrStale.
func (e *StaleError) Is(target error) bool { return target == ErrStale }

// Valid returns why a resource cannot be guarded by a token: the error is [ErrNoToken] or [ErrInvalid]. A resource's name
// follows the rules for names of locks: up to 255 bytes of UTF-8 without control characters. Every guard calls Valid first.
func Valid(resource string, token int64) error {
	if err := driver.CheckName(resource); err != nil {
		return fmt.Errorf("guard: %w resource: %w", ErrInvalid, err)
	}
	return positive(resource, token)
}

func positive(resource string, token int64) error {
	if token <= 0 {
		return fmt.Errorf("guard: %q: %w: %d is not the token of a lease", resource, ErrNoToken, token)
	}
	return nil
}

// Judge compares a token with a resource's mark, 0 if it has none, as Check does: it returns nil, a [StaleError] or
// [ErrNotRaised]. It is for guards of other resources.
func Judge(resource string, token, mark int64) error {
	switch {
	case mark > token:
		return &StaleError{resource, token, mark}
	case mark < token:
		return fmt.Errorf("guard: %q: %w: %d, where the mark is %d", resource, ErrNotRaised, token, mark)
	}
	return nil
}

// ParseToken reads a token in decimal, such as the text of STILE_TOKEN: a positive number below 2^63 without sign, space
// or leading zero. The error is [ErrNoToken] if the text is empty, otherwise [ErrInvalid].
func ParseToken(text string) (int64, error) {
	if text == "" {
		return 0, fmt.Errorf("guard: %w: the text is empty", ErrNoToken)
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n <= 0 || strconv.FormatInt(n, 10) != text {
		return 0, fmt.Errorf("guard: %w token: %.40q is not a decimal number from 1 to 2^63-1", ErrInvalid, text)
	}
	return n, nil
}

// FormatToken writes a token as [ParseToken] reads it. Use this text even in formats with numbers, such as JSON, since
// numbers of JavaScript are not exact from 2^53 on.
func FormatToken(token int64) string { return strconv.FormatInt(token, 10) }
