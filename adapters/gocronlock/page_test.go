package gocronlock

import (
	"testing"

	"github.com/stilelock/stile/internal/pagetest"
)

func TestPage(t *testing.T) {
	pagetest.Vet(t, "../../docs/howto/adapters.md", "gocron", `"errors"`, `"log"`, `"time"`, `"github.com/go-co-op/gocron/v2"`,
		`"github.com/stilelock/stile/adapters/gocronlock"`)
}
