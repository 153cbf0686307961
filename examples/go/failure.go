package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// failure is what the service tells of a call that failed.
type failure struct {
	code       codes.Code
	reason     string // the name of a value of ErrorReason; empty when the service did not say, as when nobody answers
	message    string
	violations []*errdetails.BadRequest_FieldViolation
	retryAfter time.Duration // how long to wait before another try; 0 when the service did not say
}

// failureOf reads the details of an error. What is no gRPC error is of the code Unknown.
func failureOf(err error) failure {
	told := status.Convert(err)
	result := failure{code: told.Code(), message: told.Message()}
	for _, detail := range told.Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			result.reason = detail.GetReason()
		case *errdetails.BadRequest:
			result.violations = detail.GetFieldViolations()
		case *errdetails.RetryInfo:
			result.retryAfter = detail.GetRetryDelay().AsDuration()
		}
	}
	return result
}

func (f failure) String() string {
	lines := []string{fmt.Sprintf("%s %s: %s", f.code, f.reason, f.message)}
	for _, violation := range f.violations {
		lines = append(lines, fmt.Sprintf("  %s: %s", violation.GetField(), violation.GetDescription()))
	}
	return strings.Join(lines, "\n")
}

// patiently makes a call again after the delay that the service asks for, as it does when a key's rate is used up. It
// gives up when ctx ends.
func patiently[Response any](ctx context.Context, call func() (Response, error)) (Response, error) {
	for {
		response, err := call()
		wait := failureOf(err).retryAfter
		if err == nil || wait == 0 {
			return response, err
		}
		select {
		case <-ctx.Done():
			return response, err
		case <-time.After(wait):
		}
	}
}
