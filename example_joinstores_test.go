package stile_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/store/memory"
)

// An account is in one store and the file of its statements in another. Programs that join both locks take the two in one
// order, in any order of the arguments, since each store keeps an id.
func ExampleJoin_stores() {
	ctx := context.Background()
	open := func(store *memory.Store) *stile.Client {
		c, err := stile.New(store.Driver(), nil)
		if err != nil {
			log.Fatal(err)
		}
		return c
	}
	accounts := open(memory.NewStore())
	defer accounts.Close()
	store := memory.NewStore()
	files, others := open(store), open(store)
	defer files.Close()
	defer others.Close()

	lease, err := stile.Join(accounts.Mutex("ann"), files.Mutex("ann")).Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	_, err = files.Mutex("ann").TryLock(ctx)
	fmt.Println(len(lease.Parts()), errors.Is(err, stile.ErrHeld))
	if err := lease.Unlock(); err != nil {
		log.Fatal(err)
	}

	// Two clients of one store are not two stores.
	_, err = stile.Join(files.Mutex("ann"), others.Mutex("bob")).Lock(ctx)
	fmt.Println(err)
	// Output:
	// 2 true
	// stile: lock "ann": invalid join: two of its clients are of one store (memory); use one client for it
}
