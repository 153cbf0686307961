package memsvc

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	errorDomain  = "memsvc"
	reasonPrefix = "ERROR_REASON_"
)

// Error is the error of a failed call. It wraps the error of gRPC.
type Error struct {
	// Code is the gRPC status code.
	Code codes.Code
	// Reason is the finer reason, a name of ErrorReason without its prefix, such as "MEMORY_NOT_FOUND"; empty if the
	// service sent none, as when it cannot be reached.
	Reason string
	// Message says what is wrong, in English.
	Message string
	// Violations are all rules that the request broke, if Code is InvalidArgument.
	Violations []Violation
	// Metadata has the values that ErrorReason documents for the reason, such as the present revision.
	Metadata map[string]string
	// RetryAfter is the delay before another attempt, 0 if the service sent none.
	RetryAfter time.Duration

	cause error
}

// Violation is one rule that a request broke: the path of the field, and the rule.
type Violation struct {
	Field, Description string
}

// Error returns everything in one line.
func (e *Error) Error() string {
	name := e.Reason
	if name == "" {
		name = e.Code.String()
	}
	if len(e.Violations) == 0 {
		return fmt.Sprintf("%s: %s", name, e.Message)
	}
	broken := make([]string, 0, len(e.Violations))
	for _, violation := range e.Violations {
		broken = append(broken, violation.Field+": "+violation.Description)
	}
	return fmt.Sprintf("%s: %s", name, strings.Join(broken, "; "))
}

// Unwrap returns the error of gRPC.
func (e *Error) Unwrap() error {
	return e.cause
}

// FromError decodes the error of a call of a generated client, such as Client.Memories. It returns false if err is nil or
// no error of a call. An *Error that err wraps is returned as it is.
func FromError(err error) (*Error, bool) {
	if failed := (*Error)(nil); errors.As(err, &failed) {
		return failed, true
	}
	if _, ok := status.FromError(err); !ok || err == nil {
		return nil, false
	}
	return newError(err, ""), true
}

// newError decodes the details of an error of gRPC.
func newError(err error, address string) *Error {
	received := status.Convert(err)
	result := &Error{Code: received.Code(), Message: received.Message(), cause: err}
	isExplained := false
	for _, detail := range received.Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			isExplained = true
			if detail.GetDomain() == errorDomain {
				result.Reason = strings.TrimPrefix(detail.GetReason(), reasonPrefix)
				result.Metadata = detail.GetMetadata()
			}
		case *errdetails.BadRequest:
			for _, one := range detail.GetFieldViolations() {
				result.Violations = append(result.Violations, Violation{one.GetField(), one.GetDescription()})
			}
		case *errdetails.RetryInfo:
			result.RetryAfter = detail.GetRetryDelay().AsDuration()
		}
	}
	if result.Code == codes.Unavailable && !isExplained {
		if address != "" {
			address = " at " + address
		}
		result.Message = fmt.Sprintf("no service can be reached%s: %s", address, result.Message)
	}
	return result
}
