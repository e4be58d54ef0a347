//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// longest is the lease of claims that the run does not renew.
const longest = time.Hour

// viewers measures what the page costs the store.
func viewers(r *run) error {
	names, window := 1000, 10*time.Second
	if r.short {
		names, window = 50, 3*time.Second
	}
	service := r.overRedis()
	d, err := driver.Open(context.Background(), r.direct())
	if err != nil {
		return err
	}
	defer d.Close()
	for i := range names {
		c := &driver.Claim{Name: fmt.Sprint("served/page/", i), ID: fmt.Sprint("page-", i), Client: "served", Weight: driver.All, Capacity: driver.All,
			TTL: longest, Wait: longest}
		if _, err := d.Enter(context.Background(), c); err != nil {
			return err
		}
	}
	before, err := scans(r.redis)
	if err == nil {
		_, err = d.(driver.Lister).List(context.Background(), &driver.Query{})
	}
	if err != nil {
		return err
	}
	after, err := scans(r.redis)
	if err != nil {
		return err
	}
	perList := after - before
	t := r.page.table("The page", fmt.Sprintf("A store of %s names, each with a holder. A List of the store is counted by its SCANs, as Redis counts them.", grouped(float64(names), 0)),
		"viewers", "Lists of the store a second", "store", "service")
	for _, n := range []int{0, 1, 50} {
		lists, cpu, err := r.view(service, n, window)
		if err != nil {
			return fmt.Errorf("%d viewers: %w", n, err)
		}
		lists /= perList
		t.row(fmt.Sprint(n), grouped(lists, 2), share(cpu[1]), share(cpu[0]))
		r.say("page: %d viewers: %.2f Lists a second", n, lists)
		switch n {
		case 0:
			r.page.target("Lists of the store a second for the page, without viewers", lists, atMost, 0)
		case 50:
			r.page.target("Lists of the store a second for the page, 50 viewers", lists, atMost, mostLists)
		}
		if n == 0 && lists > 0 || lists > mostLists {
			return fmt.Errorf("%d viewers cost %.2f Lists of the store a second", n, lists)
		}
	}
	return nil
}

// mostLists is the most Lists of the store a second: one, and one more at an end of the window.
const mostLists = 1.5

// scans returns how many SCANs a server has run.
func scans(s *servertest.Server) (float64, error) {
	text, ran := strings.CutPrefix(s.RedisInfo("cmdstat_scan"), "calls=")
	if !ran {
		return 0, nil
	}
	text, _, _ = strings.Cut(text, ",")
	return strconv.ParseFloat(text, 64)
}

// view lets viewers look at the page for a while, and returns the SCANs a second, and which part of a core the service and its
// store used.
func (r *run) view(service *servertest.Server, viewers int, window time.Duration) (perSecond float64, cores [2]float64, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	by := &http.Client{Transport: &http.Transport{}}
	errs := make([]error, viewers)
	var all, looking sync.WaitGroup
	defer func() {
		cancel()
		all.Wait()
		by.CloseIdleConnections()
		err = errors.Join(append(errs, err)...)
	}()
	looking.Add(viewers)
	for i := range viewers {
		all.Go(func() { errs[i] = look(ctx, by, "http://"+service.Addr+"/page/events", looking.Done) })
	}
	looking.Wait()
	before, err := scans(r.redis)
	if err != nil {
		return 0, cores, err
	}
	end, err := usage([]*servertest.Server{service, r.redis})
	if err != nil {
		return 0, cores, err
	}
	time.Sleep(window)
	took, cpu, err := end()
	if err != nil {
		return 0, cores, err
	}
	after, err := scans(r.redis)
	for i := range cores {
		cores[i] = cpu[1+i] / took.Seconds()
	}
	return (after - before) / took.Seconds(), cores, err
}

// look reads the events of the page until ctx ends. It calls begun when the first has begun to come, or none will.
func look(ctx context.Context, by *http.Client, url string, begun func()) error {
	begin := sync.OnceFunc(begun)
	defer begin()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := by.Do(q)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, res.Status)
	}
	if _, err := io.ReadFull(res.Body, make([]byte, len(":\n\ndata: {"))); err != nil {
		return err
	}
	begin()
	if _, err := io.Copy(io.Discard, res.Body); ctx.Err() == nil {
		return errors.Join(errors.New("the events of the page ended"), err)
	}
	return nil
}
