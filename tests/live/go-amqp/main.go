package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	amqp "github.com/Azure/go-amqp"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func text(message *amqp.Message) string {
	return string(message.GetData())
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	connection, err := amqp.Dial(ctx, os.Args[1], &amqp.ConnOptions{
		SASLType: amqp.SASLTypePlain("user", "secret"), MaxFrameSize: 4096, IdleTimeout: 2 * time.Second,
	})
	check(err)
	session, err := connection.NewSession(ctx, nil)
	check(err)
	sender, err := session.NewSender(ctx, "/queues/go", nil)
	check(err)
	receiver, err := session.NewReceiver(ctx, "/queues/go", &amqp.ReceiverOptions{Credit: 10})
	check(err)
	for k := 0; k < 200; k++ {
		message := amqp.NewMessage([]byte(strconv.Itoa(k)))
		message.ApplicationProperties = map[string]any{"k": int64(k)}
		check(sender.Send(ctx, message, nil))
	}
	for k := 0; k < 200; k++ {
		message, err := receiver.Receive(ctx, nil)
		check(err)
		if text(message) != strconv.Itoa(k) || message.ApplicationProperties["k"] != int64(k) {
			panic(text(message))
		}
		check(receiver.AcceptMessage(ctx, message))
	}
	fmt.Println("ordered")
	check(sender.Send(ctx, amqp.NewMessage(make([]byte, 300_000)), nil))
	large, err := receiver.Receive(ctx, nil)
	check(err)
	fmt.Println("large", len(large.GetData()))
	check(receiver.ReleaseMessage(ctx, large))
	large, err = receiver.Receive(ctx, nil)
	check(err)
	check(receiver.ModifyMessage(ctx, large, &amqp.ModifyMessageOptions{DeliveryFailed: true}))
	large, err = receiver.Receive(ctx, nil)
	check(err)
	check(receiver.RejectMessage(ctx, large, &amqp.Error{Condition: "app:wrong", Description: "why"}))
	check(receiver.Close(ctx))

	settled, err := session.NewSender(ctx, "/queues/go", &amqp.SenderOptions{
		SettlementMode: amqp.SenderSettleModeSettled.Ptr(),
	})
	check(err)
	check(settled.Send(ctx, amqp.NewMessage([]byte("settled")), nil))
	manual, err := session.NewReceiver(ctx, "/queues/go", &amqp.ReceiverOptions{
		Credit: -1, SettlementMode: amqp.ReceiverSettleModeSecond.Ptr(),
	})
	check(err)
	check(manual.IssueCredit(1))
	message, err := manual.Receive(ctx, nil)
	check(err)
	check(manual.AcceptMessage(ctx, message))
	fmt.Println(text(message))
	check(manual.IssueCredit(5))
	check(manual.DrainCredit(ctx, nil))
	fmt.Println("drained", manual.Prefetched() == nil)

	check(sender.Send(ctx, &amqp.Message{
		Data: [][]byte{[]byte("blue")}, ApplicationProperties: map[string]any{"colour": "blue", "n": int32(1)},
	}, nil))
	check(sender.Send(ctx, &amqp.Message{
		Data: [][]byte{[]byte("red")}, ApplicationProperties: map[string]any{"colour": "red", "n": int32(2)},
	}, nil))
	for _, filter := range []amqp.LinkFilter{
		amqp.NewSelectorFilter("colour LIKE 'r%' AND n BETWEEN 2 AND 3"),
		amqp.NewLinkFilter("amqp:sql-filter", 0x120, "colour = 'blue' AND n IN (1, 5)"),
	} {
		filtered, err := session.NewReceiver(ctx, "/queues/go", &amqp.ReceiverOptions{Filters: []amqp.LinkFilter{filter}})
		check(err)
		message, err = filtered.Receive(ctx, nil)
		check(err)
		check(filtered.AcceptMessage(ctx, message))
		fmt.Println(text(message))
		check(filtered.Close(ctx))
	}

	other, err := connection.NewSession(ctx, nil)
	check(err)
	_, err = other.NewSender(ctx, "/nowhere/x", nil)
	var refused *amqp.Error
	fmt.Println(errors.As(err, &refused) && refused.Condition == amqp.ErrCondNotFound)
	dynamic, err := other.NewReceiver(ctx, "", &amqp.ReceiverOptions{DynamicAddress: true})
	check(err)
	reply, err := other.NewSender(ctx, dynamic.Address(), nil)
	check(err)
	check(reply.Send(ctx, amqp.NewMessage([]byte("reply")), nil))
	message, err = dynamic.Receive(ctx, nil)
	check(err)
	check(dynamic.AcceptMessage(ctx, message))
	fmt.Println(text(message))
	check(other.Close(ctx))
	time.Sleep(3 * time.Second) // longer than the idle time-out
	check(sender.Send(ctx, amqp.NewMessage([]byte("last")), nil))
	check(connection.Close())
	_, err = amqp.Dial(ctx, os.Args[1], &amqp.ConnOptions{SASLType: amqp.SASLTypePlain("user", "wrong")})
	fmt.Println(err != nil)
	fmt.Println("done")
}
