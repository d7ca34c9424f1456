# What Tocsin itself may do: attach these to its own role.

data "aws_iam_policy_document" "publisher" {
  statement {
    actions   = ["sns:Publish"]
    resources = [aws_sns_topic.this.arn]
  }
}

data "aws_iam_policy_document" "archiver" {
  statement {
    actions = [
      "sqs:ReceiveMessage",
      "sqs:DeleteMessage",
      "sqs:ChangeMessageVisibility",
      "sqs:GetQueueAttributes",
      "sqs:GetQueueUrl",
    ]
    resources = [aws_sqs_queue.this["archive"].arn]
  }
}

data "aws_iam_policy_document" "registrar" {
  statement {
    actions   = ["sns:CreatePlatformEndpoint"]
    resources = local.applications
  }
  statement {
    actions   = ["sns:GetEndpointAttributes", "sns:SetEndpointAttributes", "sns:DeleteEndpoint"]
    resources = local.endpoints
  }
}

data "aws_iam_policy_document" "key" {
  count = var.kms_key_arn == null ? 0 : 1
  statement {
    actions   = ["kms:GenerateDataKey", "kms:Decrypt"]
    resources = [var.kms_key_arn]
  }
}

resource "aws_iam_policy" "this" {
  for_each = merge(
    {
      publisher = data.aws_iam_policy_document.publisher.json
      archiver  = data.aws_iam_policy_document.archiver.json
      registrar = data.aws_iam_policy_document.registrar.json
    },
    { for document in data.aws_iam_policy_document.key : "key" => document.json }
  )
  name   = "${var.name}-${each.key}"
  policy = each.value
}

output "topic_arn" {
  description = "Where Tocsin publishes."
  value       = aws_sns_topic.this.arn
}

output "queue_urls" {
  description = "The queues: archive is what the archiver drains."
  value       = { for name, queue in aws_sqs_queue.this : name => queue.url }
}

output "dead_letter_urls" {
  description = "What could not be delivered or archived."
  value       = { for name, queue in aws_sqs_queue.dead_letters : name => queue.url }
}

output "policy_arns" {
  description = "For the roles of Tocsin's publisher, archiver and API; key, if there is one, for the first two."
  value       = { for name, policy in aws_iam_policy.this : name => policy.arn }
}
