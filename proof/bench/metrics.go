//go:build unix

package main

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strings"
)

// metrics calls each with every figure of a server's metrics for Prometheus.
func metrics(url string, each func(name, value string)) error {
	ctx, cancel := context.WithTimeout(context.Background(), givenUp)
	defer cancel()
	ask, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(ask)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("metrics: %s", answer.Status)
	}
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		if i := strings.LastIndexByte(lines.Text(), ' '); i > 0 && lines.Text()[0] != '#' {
			each(lines.Text()[:i], lines.Text()[i+1:])
		}
	}
	return lines.Err()
}
