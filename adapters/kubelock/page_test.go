package kubelock

import (
	"testing"

	"github.com/stilelock/stile/internal/pagetest"
)

func TestPage(t *testing.T) {
	pagetest.Vet(t, "../../docs/howto/adapters.md", "client-go", `"time"`, `"k8s.io/client-go/tools/leaderelection"`,
		`"github.com/stilelock/stile/adapters/kubelock"`)
}
