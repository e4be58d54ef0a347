package cronlock

import (
	"testing"

	"github.com/stilelock/stile/internal/pagetest"
)

func TestPage(t *testing.T) {
	pagetest.Vet(t, "../../docs/howto/adapters.md", "robfig/cron", `"log"`, `"time"`, `"github.com/robfig/cron/v3"`,
		`"github.com/stilelock/stile/adapters/cronlock"`)
}
