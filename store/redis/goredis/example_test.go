package goredis_test

import (
	"context"
	"log"

	"github.com/redis/go-redis/v9"
	"github.com/stilelock/stile"
	"github.com/stilelock/stile/store/redis/goredis"
)

// A program with a go-redis client keeps locks on the same servers.
func ExampleOpen() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379", Username: "shop", Password: "secret"})
	defer rdb.Close()

	driver, err := goredis.Open(ctx, rdb, nil)
	if err != nil {
		log.Fatal(err)
	}
	locks, err := stile.New(driver, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()
	err = locks.Mutex("order 7").Do(ctx, func(ctx context.Context) error {
		return rdb.Incr(ctx, "orders").Err()
	})
	if err != nil {
		log.Print(err)
	}
}
