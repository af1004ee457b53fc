package main

import (
	"context"
	"fmt"
	"os"
	"strconv"

	amqp "github.com/rabbitmq/amqp091-go"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	connection, err := amqp.Dial(os.Args[1])
	check(err)
	channel, err := connection.Channel()
	check(err)
	check(channel.Confirm(false))
	check(channel.ExchangeDeclare("e", "topic", false, false, false, false, nil))
	queue, err := channel.QueueDeclare("", false, false, true, false, nil)
	check(err)
	check(channel.QueueBind(queue.Name, "a.#", "e", false, nil))
	returned := channel.NotifyReturn(make(chan amqp.Return, 1))
	for k := 0; k < 20; k++ {
		confirm, err := channel.PublishWithDeferredConfirmWithContext(context.Background(), "e", "a.b", true, false,
			amqp.Publishing{Body: []byte(strconv.Itoa(k)), Headers: amqp.Table{"k": int64(k)}})
		check(err)
		if !confirm.Wait() {
			panic("not confirmed")
		}
	}
	check(channel.PublishWithContext(context.Background(), "e", "nowhere", true, false, amqp.Publishing{}))
	fmt.Println((<-returned).ReplyCode)
	check(channel.Qos(5, 0, false))
	deliveries, err := channel.Consume(queue.Name, "", false, false, false, false, nil)
	check(err)
	for k := 0; k < 20; k++ {
		delivery := <-deliveries
		if string(delivery.Body) != strconv.Itoa(k) {
			panic(string(delivery.Body))
		}
		check(delivery.Ack(false))
	}
	other, err := connection.Channel()
	check(err)
	_, err = other.QueueDeclarePassive("gone", false, false, false, false, nil)
	fmt.Println(err.(*amqp.Error).Code)
	check(channel.Close())
	check(connection.Close())
	fmt.Println("done")
}
