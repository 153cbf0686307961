// Command memsvc-agent is a small agent with a long-term memory: it plans a trip, remembers what it is told in two
// languages, recalls it, and watches what happens to its memories meanwhile.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"time"

	"google.golang.org/grpc/codes"
)

//go:generate buf generate

const (
	defaultAddress = "127.0.0.1:50051"
	runTimeout     = time.Minute
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, runTimeout)
	defer cancel()

	address := addressOf(os.Args[1:])
	if err := run(ctx, address); err != nil {
		fmt.Fprintln(os.Stderr, explain(err, address))
		os.Exit(1)
	}
}

// addressOf returns the first argument, else what MEMSVC_ADDRESS says, else where memsvc listens by default.
func addressOf(arguments []string) string {
	if len(arguments) > 0 {
		return arguments[0]
	}
	if address := os.Getenv("MEMSVC_ADDRESS"); address != "" {
		return address
	}
	return defaultAddress
}

// run does what the agent does, against the service at address.
func run(ctx context.Context, address string) error {
	connection, err := connect(address, os.Getenv("MEMSVC_API_KEY"), os.Getenv("MEMSVC_TLS_CA"))
	if err != nil {
		return err
	}
	defer connection.Close()
	agent := newAgent(connection)

	watch, err := agent.startWatch(ctx)
	if err != nil {
		return err
	}
	defer watch.stop()
	fmt.Printf("Connected to %s: user %s, project %s\n", address, agent.scope.GetUserId(), agent.scope.GetProjectId())

	written, err := agent.remember(ctx)
	if err != nil {
		return err
	}
	if err := agent.sendWrongRequest(ctx); err != nil {
		return err
	}
	found, err := agent.recall(ctx)
	if err != nil {
		return err
	}
	shown, err := patiently(ctx, func() (int, error) { return agent.prepare(ctx) })
	if err != nil {
		return err
	}
	seen, err := watch.report(written)
	if err != nil {
		return err
	}
	if err := agent.resumeWatch(ctx, watch.firstCursor); err != nil {
		return err
	}
	fmt.Printf("Done: %d writes, %d hits, %d items of context, %d changes.\n", written, found, shown, seen)
	return nil
}

// explain says in one sentence what went wrong and what to do about it.
func explain(err error, address string) string {
	failure := failureOf(err)
	switch {
	case failure.code == codes.Unavailable && failure.reason == "":
		return fmt.Sprintf("No memory service answers at %s: start one with \"memsvc serve\", or give its address as the "+
			"first argument or in MEMSVC_ADDRESS (and in MEMSVC_TLS_CA the file of its authority, if it speaks TLS).", address)
	case failure.code == codes.Unauthenticated:
		return fmt.Sprintf("%s: give a key in MEMSVC_API_KEY (\"memsvc keys create\" makes one).", failure.message)
	default:
		return failure.String()
	}
}
