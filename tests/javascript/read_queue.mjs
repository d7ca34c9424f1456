// Reads a queue until it is empty, with the stock client of AWS, and prints what is in its messages as JSON.
import { DeleteMessageCommand, ReceiveMessageCommand, SQSClient } from "@aws-sdk/client-sqs";

const [endpoint, region, QueueUrl] = process.argv.slice(2);
const sqs = new SQSClient({ endpoint, region });
const read = [];
for (;;) {
  const { Messages = [] } = await sqs.send(
    new ReceiveMessageCommand({
      QueueUrl,
      MaxNumberOfMessages: 10,
      MessageAttributeNames: ["All"],
      MessageSystemAttributeNames: ["All"],
    }),
  );
  if (Messages.length === 0) break;
  for (const message of Messages) {
    const body = JSON.parse(message.Body);
    const wrapped = body.Type === "Notification";
    const attributes = Object.entries((wrapped ? body.MessageAttributes : message.MessageAttributes) ?? {});
    read.push({
      group: message.Attributes?.MessageGroupId,
      deduplication: message.Attributes?.MessageDeduplicationId,
      envelope: wrapped ? JSON.parse(body.Message) : body,
      attributes: Object.fromEntries(attributes.map(([name, value]) => [name, value.Value ?? value.StringValue])),
    });
    await sqs.send(new DeleteMessageCommand({ QueueUrl, ReceiptHandle: message.ReceiptHandle }));
  }
}
console.log(JSON.stringify(read));
